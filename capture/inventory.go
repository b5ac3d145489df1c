package capture

import (
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

// inventoryState is what is known of one source.
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

// of are the facts of a Node. A source that was not read, or is stale, or lists another machine, is not in them.
func (i *inventories) of(p policy.Policy, node, systemUUID string, now time.Time, instead map[string]inventory.Snapshot) map[string]map[string]string {
	if !p.LabelRules().LooksAtInventory() {
		return nil
	}
	facts := map[string]map[string]string{}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, source := range p.Inventory() {
		snapshot, is := instead[source.Name]
		if state := i.sources[source.Name]; !is {
			if state == nil || state.stale(now) {
				continue
			}
			snapshot = state.inForce
		}
		if attributes, ok := snapshot.Of(node, systemUUID); ok {
			facts[source.Name] = attributes
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

// inForce names the inputs that decide which facts Nodes have: the snapshots in force that are not stale. It is empty if rules use none.
func (i *inventories) inForce(p policy.Policy, now time.Time) string {
	if !p.LabelRules().LooksAtInventory() {
		return ""
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	var all packing.Writer
	for _, source := range p.Inventory() {
		if state := i.sources[source.Name]; state != nil && !state.stale(now) {
			all.Text(source.Name)
			all.Text(state.inForce.Hash())
		}
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
	has := map[string]bool{}
	for _, source := range sources {
		has[source.Name] = true
	}
	for name := range i.sources {
		if !has[name] {
			delete(i.sources, name)
		}
	}
}

func (i *inventories) holds(state *inventoryState) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return state.held != nil
}

// failed notes why a source could not be read, and reports whether that is news.
func (i *inventories) failed(state *inventoryState, reason fetch.Reason) (news bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	news = state.failure != reason
	state.failure = reason
	state.failures[reason]++
	return news
}

// answered notes that a source could be read, and reports whether that is news.
func (i *inventories) answered(state *inventoryState, now time.Time) (news bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	news = state.failure != ""
	state.failure, state.answered = "", now
	return news
}

// confirm notes that the source says what is in force; a snapshot that was held is none any more.
func (i *inventories) confirm(state *inventoryState) {
	i.mu.Lock()
	defer i.mu.Unlock()
	state.confirmed, state.held, state.change = state.answered, nil, inventory.Change{}
}

func (i *inventories) put(state *inventoryState, next inventory.Snapshot) {
	i.mu.Lock()
	defer i.mu.Unlock()
	state.read, state.inForce, state.confirmed, state.held, state.change = true, next, state.answered, nil, inventory.Change{}
}
