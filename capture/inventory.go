package capture

import (
	"maps"
	"slices"
	"sync"
	"time"

	"nodekeep.dev/nodekeep/inventory"
	"nodekeep.dev/nodekeep/inventory/fetch"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record/packing"
)

// inventories is what the sources of the policy's inventory say. Only the leader reads them. For another replica nothing is known, so it
// keeps the labels that the leader has set.
type inventories struct {
	newPolicy chan struct{} // holds one value after a change of the policy, and when this process begins to lead
	preload   chan struct{} // holds one value when records may have to be written ahead

	mu      sync.Mutex
	sources map[string]*inventoryState // by name
}

// inventoryState is what is known of one source. Only the goroutine that reads the source changes it, and reads it without the lock.
type inventoryState struct {
	source    inventory.Source
	read      bool // there is a snapshot in force
	inForce   inventory.Snapshot
	answered  time.Time // when the source could last be read
	confirmed time.Time // when the source last said what is in force
	held      *inventory.Snapshot
	change    inventory.Change // that the held snapshot would make
	failure   fetch.Reason     // of the last read; empty: none
	failures  map[fetch.Reason]int
	differs   int // Nodes whose machine is another one than the snapshot lists

	version  string         // of the last snapshot that could be read, for the next request
	noted    *InventoryNote // the last that was read or written; nil: it is not known
	notedAt  time.Time
	reported string // the hash of the held snapshot that an Event was about
}

func newInventories() *inventories {
	return &inventories{newPolicy: make(chan struct{}, 1), preload: make(chan struct{}, 1), sources: map[string]*inventoryState{}}
}

// stale reports whether the snapshot is too old to count, or is missing.
func (s *inventoryState) stale(now time.Time) bool {
	return !s.read || now.Sub(s.confirmed) > s.source.StaleAfter
}

// neverInForce reports whether no snapshot of the source was ever in force, and none will be for now. The source cannot be read, or its
// snapshot is held. New rules do not wait for it, since its first snapshot is held to the same bound as they are.
func (s *inventoryState) neverInForce() bool {
	return !s.read && (s.failure != "" || s.held != nil) && s.noted != nil && s.noted.InForce == ""
}

// inventoryInForce is a source and its snapshot that counts now.
type inventoryInForce struct {
	source   string
	preload  bool
	snapshot inventory.Snapshot
}

// current are the sources of a policy whose snapshots count now: those that were read and are not stale. The snapshots of instead replace
// those that are in force. There are none if no rule uses an inventory.
func (i *inventories) current(p policy.Policy, now time.Time, instead map[string]inventory.Snapshot) (all []inventoryInForce) {
	if !p.LabelRules().LooksAtInventory() {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, source := range p.Inventory() {
		snapshot, counts := instead[source.Name]
		if state := i.sources[source.Name]; !counts && state != nil && !state.stale(now) {
			snapshot, counts = state.inForce, true
		}
		if counts {
			all = append(all, inventoryInForce{source.Name, source.Preload, snapshot})
		}
	}
	return all
}

// of are the facts of a Node. A source that does not count now, or lists another machine, is not in them.
func (i *inventories) of(p policy.Policy, node, systemUUID string, now time.Time, instead map[string]inventory.Snapshot) (facts map[string]map[string]string) {
	facts = map[string]map[string]string{}
	for _, inForce := range i.current(p, now, instead) {
		if attributes, ok := inForce.snapshot.Of(node, systemUUID); ok {
			facts[inForce.source] = attributes
		}
	}
	return facts
}

// under are the facts of each Node under a policy. The snapshots of instead replace those that are in force.
func (i *inventories) under(p policy.Policy, now time.Time, instead map[string]inventory.Snapshot) func(*observe.Node) map[string]map[string]string {
	return func(node *observe.Node) map[string]map[string]string {
		return i.of(p, node.Name, node.Machine.SystemUUID, now, instead)
	}
}

// inForce names the inputs that decide which facts Nodes have: the snapshots that count now. It is empty if rules use none.
func (i *inventories) inForce(p policy.Policy, now time.Time) string {
	var all packing.Writer
	for _, inForce := range i.current(p, now, nil) {
		all.Text(inForce.source)
		all.Text(inForce.snapshot.Hash())
	}
	return string(all)
}

// known reports whether each source of a policy was read. Sources of which nothing was ever in force do not count. If rules use no source,
// it is true.
func (i *inventories) known(p policy.Policy, now time.Time) bool {
	if !p.LabelRules().LooksAtInventory() {
		return true
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, source := range p.Inventory() {
		if state := i.sources[source.Name]; state == nil || state.stale(now) && !state.neverInForce() {
			return false
		}
	}
	return true
}

// state is that of a source, which is made if it is not there.
func (i *inventories) state(source inventory.Source) *inventoryState {
	i.mu.Lock()
	defer i.mu.Unlock()
	state := i.sources[source.Name]
	if state == nil {
		state = &inventoryState{failures: map[fetch.Reason]int{}}
		i.sources[source.Name] = state
	}
	state.source, state.version = source, "" // what is kept of an answer may be more now
	return state
}

// forget drops the sources that the policy no longer has.
func (i *inventories) forget(sources []inventory.Source) {
	i.mu.Lock()
	defer i.mu.Unlock()
	maps.DeleteFunc(i.sources, func(name string, _ *inventoryState) bool {
		return !slices.ContainsFunc(sources, func(source inventory.Source) bool { return source.Name == name })
	})
}

// change changes a state. Only the goroutine that reads the source may do so.
func (i *inventories) change(do func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	do()
}

// failed notes why a source could not be read, and reports whether that is news.
func (i *inventories) failed(state *inventoryState, reason fetch.Reason) (news bool) {
	news = state.failure != reason
	i.change(func() {
		state.failure = reason
		state.failures[reason]++
	})
	return news
}

// answered notes that a source could be read, and reports whether that is news.
func (i *inventories) answered(state *inventoryState, now time.Time) (news bool) {
	news = state.failure != ""
	i.change(func() { state.failure, state.answered = "", now })
	return news
}

// put puts a snapshot in force, which the source has just confirmed. A snapshot that was held is none any more.
func (i *inventories) put(state *inventoryState, next inventory.Snapshot) {
	i.change(func() {
		state.read, state.inForce, state.confirmed, state.held, state.change = true, next, state.answered, nil, inventory.Change{}
	})
}
