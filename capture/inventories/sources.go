package inventories

import (
	"context"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"nodekeep.dev/nodekeep/inventory"
	"nodekeep.dev/nodekeep/inventory/fetch"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/packing"
	"nodekeep.dev/nodekeep/store"
)

// Options are what Sources work with. All are required but Files.
type Options struct {
	Notes      store.ConfigMapNotes // of the release namespace; it has the sources that are ConfigMaps, too
	Files      string               // the folder of the files that the policy names below [inventory.Mounts]
	Policy     func() policy.Policy
	Controller Controller
	Records    RecordStore
	ClusterUID func() string
	// CountAltered counts all live Nodes (total), and those on which a policy would change labels (altered). Snapshots in replaced count instead of those in force.
	CountAltered func(p policy.Policy, replacements map[string]inventory.Snapshot) (altered, total int)
	// OnChange is called when facts have changed.
	OnChange func()
	// Warn creates an Event about the NodePolicy.
	Warn   func(reason, format string, args ...any)
	Now    func() time.Time
	Logger *slog.Logger
}

// Controller is the controller of package capture: it knows which Nodes live, and who works on them.
type Controller interface {
	// Leading reports whether this process leads: only that one reads sources.
	Leading() bool
	// SystemUUIDs are the systemUUIDs that the Nodes which are there report.
	SystemUUIDs() map[string]string
	// Tracks reports whether a Node lives or waits to be worked on.
	Tracks(node string) bool
	// LockNode waits until no worker works on a Node, and keeps it so until release is called.
	LockNode(node string) (release func())
	// CallRecovering does the work on one object; a panic in it is an error like any other.
	CallRecovering(work, node string, fn func() error) error
}

// RecordStore is where records are read from memory and written ahead; [store.ConfigMaps] in a cluster.
type RecordStore interface {
	Get(node string) (store.Entry, error)
	ListByMachine(m record.Machine) ([]record.Record, error)
	Put(ctx context.Context, r record.Record, version string) (store.Entry, error)
	// NodeNames lists the names of all Nodes that there is a record of.
	NodeNames() []string
}

// Reasons of the Events about the NodePolicy.
const (
	FactsUnknown = "FactsUnknown" // a source of the inventory cannot be read
	ChangesHeld  = "ChangesHeld"  // a snapshot would change many Nodes and waits for an operator
)

// Sources are what the sources of the policy's inventory say, and a collector of their series. Any goroutine may ask for facts. [Sources.Run]
// starts one goroutine for each source, which alone changes what is known of it. Another one writes records ahead.
type Sources struct {
	Options

	series        series
	newPolicy     chan struct{} // holds one value after a change of the policy, and when this process begins to lead
	preloadSignal chan struct{} // holds one value when records may have to be written ahead

	mu           sync.Mutex
	sources      map[string]*state // by name
	notPreloaded int               // Nodes for which no record was written ahead, since there are as many as are allowed
}

// state is what is known of one source. Only the goroutine that reads the source changes it, and reads it without the lock.
type state struct {
	source      inventory.Source
	hasSnapshot bool // there is a snapshot in force
	inForce     inventory.Snapshot
	answered    time.Time // when the source could last be read
	confirmed   time.Time // when the source last said what is in force
	held        *inventory.Snapshot
	change      inventory.Change // that the held snapshot would make
	failure     fetch.Reason     // of the last read; empty: none
	failures    map[fetch.Reason]int
	mismatched  int // Nodes whose machine is another one than the snapshot lists

	version    string        // of the last snapshot that could be read, for the next request
	lastStatus *SourceStatus // the last that was read or written; nil: it is not known
	statusAt   time.Time
	reported   string // the hash of the held snapshot that an Event was about
}

// New knows nothing before [Sources.Run].
func New(options Options) *Sources {
	return &Sources{Options: options, series: newSeries(), newPolicy: make(chan struct{}, 1), preloadSignal: make(chan struct{}, 1), sources: map[string]*state{}}
}

// Trigger has the policy read again: it has changed, or this process leads now.
func (s *Sources) Trigger() { signal(s.newPolicy) }

// signal wakes the reader of a channel that holds one value.
func signal(reader chan struct{}) {
	select {
	case reader <- struct{}{}:
	default: // it is about to wake up
	}
}

// stale reports whether the snapshot is too old to count, or is missing.
func (s *state) stale(now time.Time) bool {
	return !s.hasSnapshot || now.Sub(s.confirmed) > s.source.StaleAfter
}

// neverInForce reports whether no snapshot of the source was ever in force, since the source cannot be read or its snapshot is held. New rules need not
// wait for it: its first snapshot needs acceptance itself if it changes many Nodes.
func (s *state) neverInForce() bool {
	return !s.hasSnapshot && (s.failure != "" || s.held != nil) && s.lastStatus != nil && s.lastStatus.InForce == ""
}

// usableSource is a source and its snapshot that counts now.
type usableSource struct {
	name     string
	preload  bool
	snapshot inventory.Snapshot
}

// current returns the sources of a policy whose snapshots count now: those that were read and are not stale. Those in replacements count instead of those
// in force. There are none if no rule uses an inventory.
func (s *Sources) current(p policy.Policy, replacements map[string]inventory.Snapshot) (usable []usableSource) {
	if !p.LabelRules().LooksAtInventory() {
		return nil
	}
	now := s.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, source := range p.Inventory() {
		snapshot, counts := replacements[source.Name]
		if st := s.sources[source.Name]; !counts && st != nil && !st.stale(now) {
			snapshot, counts = st.inForce, true
		}
		if counts {
			usable = append(usable, usableSource{source.Name, source.Preload, snapshot})
		}
	}
	return usable
}

// facts returns the facts of a Node. A source that does not count now, or lists another machine, is not in them.
func (s *Sources) facts(p policy.Policy, node, systemUUID string, replacements map[string]inventory.Snapshot) (facts map[string]map[string]string) {
	facts = map[string]map[string]string{}
	for _, source := range s.current(p, replacements) {
		if attributes, ok := source.snapshot.Attributes(node, systemUUID); ok {
			facts[source.name] = attributes
		}
	}
	return facts
}

// FactsFunc returns the facts of each Node under a policy. Snapshots in replacements count instead of those that are in force.
func (s *Sources) FactsFunc(p policy.Policy, replacements map[string]inventory.Snapshot) func(*observe.Node) map[string]map[string]string {
	return func(node *observe.Node) map[string]map[string]string {
		return s.facts(p, node.Name, node.Machine.SystemUUID, replacements)
	}
}

// InForceKey returns a string that differs if other snapshots count now, and so if Nodes may have other facts. It is empty if rules use none.
func (s *Sources) InForceKey(p policy.Policy) string {
	var all packing.Writer
	for _, source := range s.current(p, nil) {
		all.Text(source.name)
		all.Text(source.snapshot.Hash())
	}
	return string(all)
}

// Problems returns what the sources that rules use have wrong of a Node: source and problem.
func (s *Sources) Problems(p policy.Policy, node, systemUUID string) iter.Seq2[string, string] {
	return func(yield func(source, problem string) bool) {
		for _, source := range s.current(p, nil) {
			if problem := source.snapshot.Problem(node, systemUUID); problem != "" && !yield(source.name, problem) {
				return
			}
		}
	}
}

// Known reports whether each source of a policy was read. Sources of which nothing was ever in force do not count. If rules use no source, it
// is true.
func (s *Sources) Known(p policy.Policy) bool {
	if !p.LabelRules().LooksAtInventory() {
		return true
	}
	now := s.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, source := range p.Inventory() {
		if st := s.sources[source.Name]; st == nil || st.stale(now) && !st.neverInForce() {
			return false
		}
	}
	return true
}

// stateOf returns the state of a source, which is made if there is none.
func (s *Sources) stateOf(source inventory.Source) *state {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.sources[source.Name]
	if st == nil {
		st = &state{failures: map[fetch.Reason]int{}}
		s.sources[source.Name] = st
	}
	st.source, st.version = source, "" // no version: the next read gets the whole answer again, since the changed policy may keep more of it
	return st
}

// forget drops the sources that the policy no longer has.
func (s *Sources) forget(sources []inventory.Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.sources, func(name string, _ *state) bool {
		return !slices.ContainsFunc(sources, func(source inventory.Source) bool { return source.Name == name })
	})
}

// locked calls fn under the lock, to change a state. Only the goroutine that reads the source may do so.
func (s *Sources) locked(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// noteFailure notes why a source could not be read, and reports whether the reason is another one than before.
func (s *Sources) noteFailure(st *state, reason fetch.Reason) (news bool) {
	news = st.failure != reason
	s.locked(func() {
		st.failure = reason
		st.failures[reason]++
	})
	return news
}

// noteAnswer notes that a source could be read, and reports whether that is news.
func (s *Sources) noteAnswer(st *state, now time.Time) (news bool) {
	news = st.failure != ""
	s.locked(func() { st.failure, st.answered = "", now })
	return news
}

// putInForce puts a snapshot in force, which the source has just confirmed. No snapshot is held then.
func (s *Sources) putInForce(st *state, next inventory.Snapshot) {
	s.locked(func() {
		st.hasSnapshot, st.inForce, st.confirmed, st.held, st.change = true, next, st.answered, nil, inventory.Change{}
	})
}
