package main

import (
	"fmt"
	"maps"
	"slices"

	"nodekeep.dev/nodekeep/record"
)

// bounds say what may happen in a scenario, and how often.
type bounds struct {
	Keys     int
	Taints   [maxKeys]bool
	Values   int8
	Captures int

	Objects, Edits, Faults, Heartbeats, Cancelled int8
	Policies                                      int8 // times that the policy changes which keys it selects: key 0, or not
	Unstamps                                      int8 // times that a client removes the annotation
	Machines                                      bool // two machines share the name, and the policy quarantines
	Kubelet                                       bool // the kubelet has an own value for key 0
	Admission                                     bool // another admission policy sets key 0 in a CREATE
	Rule                                          bool // the policy derives taint key 0 from label key 1
	Protected                                     bool // the webhook may not restore key 0; capture does
	JSON                                          bool // every record goes through its JSON
}

// model is what all worlds of an exploration share.
type model struct {
	bounds
	names [maxKeys]string
}

// world is one state of everything: the Node objects, the records, and what each process knows.
type world struct {
	log      []*state
	records  []*stored // all that were written; the first is none
	captures [2]capture
	// observed are the states that a process merged: unselected, those of them merged only while the policy did not select key 0; soft,
	// those that led to no write; lost, those of them that a slower process has undone by writing an older state.
	observed, unselected, soft, lost uint64
	tooFar                           bool // a state was merged that came too late to count
	ignores                          bool // the policy does not select key 0 now
	broken                           bool // a Node was changed by a record in quarantine, or to a value that no record has
	isolated                         int8 // the state with which another machine was isolated; 0: none
	left                             left
	logHash, recordsHash             hash
}

// left is what may still happen.
type left struct{ objects, edits, faults, heartbeats, cancelled, policies, unstamps int8 }

// stored is a record as it was written.
type stored struct {
	record.Record
	hash hash
}

// capture is one capture controller: how much of the watch it has taken from its queue. The last state taken is the one that it
// works on.
type capture struct {
	taken int8
	done  bool // that was a deletion, and it is recorded
}

func (m *model) start() world {
	b := m.bounds
	return world{
		records: []*stored{{}},
		left:    left{b.Objects, b.Edits, b.Faults, b.Heartbeats, b.Cancelled, b.Policies, b.Unstamps},
	}
}

func (w *world) tip() *state { return w.log[len(w.log)-1] }
func (w *world) live() bool  { return len(w.log) > 0 && !w.tip().deleted }
func (w *world) record() record.Record {
	return w.records[len(w.records)-1].Record
}

// push appends a state of the Node.
func (w *world) push(s state) {
	s.read = [2]any{}
	log := make([]*state, len(w.log)+1)
	copy(log, w.log)
	log[len(w.log)] = &s
	w.log = log
	w.logHash = w.logHash.add(s.hash())
}

func (m *model) write(w *world, r record.Record) {
	if m.JSON {
		data, err := record.Encode(r)
		if err != nil {
			panic(err)
		}
		if r, err = decodeBoth(data, r); err != nil {
			panic(err)
		}
	}
	records := make([]*stored, len(w.records)+1)
	copy(records, w.records)
	s := &stored{Record: r, hash: hashOf(r)}
	records[len(w.records)] = s
	w.records = records
	w.recordsHash = w.recordsHash.add(s.hash)
}

// decodeBoth reads a record as the store does: what is quarantined is stored beside it.
func decodeBoth(data []byte, r record.Record) (record.Record, error) {
	back, err := record.Decode(data)
	back.Quarantined = r.Quarantined
	return back, err
}

// observe merges a state into the record as it is, and writes that if it is worth a write.
func (m *model) observe(w *world, at int, o record.Observation) (wrote bool) {
	before := w.record()
	machine := machines[w.log[at].machine]
	var after record.Record
	isolates := before.Quarantined == nil && o.Version > before.Newest().Version && m.otherMachine(before, w.log[at].machine)
	if isolates {
		after = record.Isolate(before, o, machine)
	} else {
		after = record.Merge(before, o)
		if o.Version >= after.Newest().Version {
			after.Machine = machine.Over(after.Machine)
		}
	}
	wrote = record.Write(before, after, o, m.complete(w, &after, o))
	if wrote {
		m.write(w, after)
		if isolates {
			w.isolated = int8(at + 1)
		}
	}
	m.note(w, at, before, o, wrote, !w.ignores)
	return wrote
}

// otherMachine reports whether the policy quarantines what a record has from a machine.
func (m *model) otherMachine(r record.Record, machine int8) bool {
	return m.Machines && machines[machine].Compare(r.Machine) == record.OtherMachine
}

// note keeps which states were observed, for the oracle.
func (m *model) note(w *world, at int, before record.Record, o record.Observation, wrote, selected bool) {
	bit := uint64(1) << at
	ignored := o.Version <= before.Floor && (before.Quarantined == nil || o.Version <= before.Quarantined.Floor)
	if ignored || before.Floor > 0 && len(before.Seen) == record.MaxObjects && o.Version < before.Seen[0].Version {
		w.tooFar = w.tooFar || m.Objects > record.MaxObjects
		return
	}
	first := w.observed&bit == 0
	w.observed |= bit
	w.lost &^= bit
	if selected {
		w.unselected &^= bit
	} else if first {
		w.unselected |= bit
	}
	if wrote || o.Final {
		w.soft &^= bit
	} else if first {
		w.soft |= bit
	}
	if wrote {
		w.lost |= w.soft &^ (bit<<1 - 1) & w.statesOf(w.log[at].object)
	}
}

// statesOf are the states of an object.
func (w *world) statesOf(object int8) (states uint64) {
	for at, s := range w.log {
		if s.object == object {
			states |= 1 << at
		}
	}
	return states
}

// reconcile is one step of a capture: it writes the record, or it patches the Node, or nothing is to be done.
func (m *model) reconcile(w *world, i int) (did bool) {
	c := &w.captures[i]
	if c.taken == 0 || c.done {
		return false
	}
	at := int(c.taken) - 1
	s := w.log[at]
	was := w.observed&^w.unselected | w.unselected<<32
	wrote := m.observe(w, at, m.observation(w, at))
	if s.deleted {
		c.done = true
		return true
	}
	if wrote {
		return true
	}
	live := &w.records[len(w.records)-1].Record
	if at == len(w.log)-1 && m.patch(w, live, live) {
		return true
	}
	return was != w.observed&^w.unselected|w.unselected<<32
}

// changes are what a capture changes on the Node by a record: labels and taints to set, and those to remove. A taint is corrected by
// the record as it is live.
func (m *model) changes(w *world, restore, live *record.Record, o record.Observation) (set map[string]string, remove []string) {
	set = record.Missing(*restore, o)
	if w.ignores {
		delete(set, m.names[0])
	}
	if len(o.Stamp.Given) == 0 {
		return set, nil
	}
	correct, remove := record.Stale(*restore, o)
	if restore != live {
		correctLive, removeLive := record.Stale(*live, o)
		label := func(name string) bool { return !record.IsTaint(name) }
		maps.DeleteFunc(correct, func(name, _ string) bool { return !label(name) })
		maps.DeleteFunc(correctLive, func(name, _ string) bool { return label(name) })
		remove = append(slices.DeleteFunc(remove, record.IsTaint), slices.DeleteFunc(removeLive, label)...)
		correct = union(correct, correctLive)
	}
	return union(set, correct), remove
}

func union(a, b map[string]string) map[string]string {
	if a == nil {
		return b
	}
	maps.Copy(a, b)
	return a
}

// complete reports whether the Node has all that the record restores, and nothing stale.
func (m *model) complete(w *world, r *record.Record, o record.Observation) bool {
	set, remove := m.changes(w, r, r, o)
	return len(set)+len(remove) == 0
}

// patch changes the Node as a record wants it. It applies to the newest state only: it carries uid and resourceVersion.
func (m *model) patch(w *world, restore, live *record.Record) (changed bool) {
	at := len(w.log) - 1
	next := *w.tip()
	if m.otherMachine(*restore, next.machine) {
		return false
	}
	next.edited, next.bare = [maxKeys]bool{}, false
	set, remove := m.changes(w, restore, live, m.observation(w, at))
	w.broken = w.broken || restore.Quarantined != nil && len(set)+len(remove) > 0
	for k := range m.Keys {
		i := &next.items[k]
		if value, ok := set[m.names[k]]; ok {
			v := valueOf(value)
			w.broken = w.broken || v == none
			*i, changed = item{value: v, given: v, since: int8(at + 1)}, true
		} else if slices.Contains(remove, m.names[k]) {
			*i, changed = item{}, true
		}
	}
	if m.follow(&next) {
		changed = true
	}
	if changed {
		w.push(next)
	}
	return changed
}

// follow derives taint key 0 from label key 1.
func (m *model) follow(s *state) (changed bool) {
	if !m.Rule {
		return false
	}
	taint, want := &s.items[0], s.items[1].value != none
	switch {
	case want && taint.value == none:
		taint.value, taint.owner, taint.rule = own, nobody, own
	case !want && taint.derived():
		taint.value, taint.rule = none, none
	default:
		return false
	}
	return true
}

// register is a CREATE, with what the webhook restores from a record; nil: the webhook is down.
func (m *model) register(w *world, from *record.Record, brings int8, by owner, machine int8) {
	s := state{object: m.Objects - w.left.objects + 1, machine: machine}
	w.left.objects--
	if brings != none {
		i := &s.items[0]
		i.value, i.owner = brings, by
		s.edited[0] = by == nobody && brings != own
	}
	if from != nil {
		blocked := from.Quarantined != nil || m.otherMachine(*from, machine)
		for k := range m.Keys {
			v, i := remembered(*from, m.names[k]), &s.items[k]
			switch {
			case v == none:
			case i.value != none:
				i.brought = i.value
			case blocked || w.ignores && k == 0 || m.Protected && k == 0:
			default:
				i.value, i.given = v, v
			}
		}
	}
	if brings == own && m.Taints[0] && s.items[0].brought == none {
		s.edited[0] = true // nobody can tell it from a client's
	}
	if from != nil {
		m.follow(&s)
	}
	w.push(s)
}

// check reports what is wrong in a world in which no process has anything to do; nothing if all is as it should be.
func (m *model) check(w *world, count *[excuses]int64) string {
	if w.broken {
		return "a Node was changed by a record in quarantine, or to a value that no record has"
	}
	for k := range m.Keys {
		var sides []side
		if w.isolated > 0 && w.record().Quarantined != nil {
			sides = []side{{w.log[:w.isolatedFrom()], 0, *w.record().Quarantined, false}, {w.log[w.isolatedFrom():], w.isolatedFrom(), w.record(), w.live()}}
		} else {
			sides = []side{{w.log, 0, w.record(), w.live()}}
		}
		for _, side := range sides {
			if wrong := m.checkSide(w, side, k, count); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// isolatedFrom is the index of the first state of the object that was isolated.
func (w *world) isolatedFrom() int {
	at := int(w.isolated) - 1
	for at > 0 && w.log[at-1].object == w.log[at].object {
		at--
	}
	return at
}

// side is a part of the log with the record that is about it.
type side struct {
	log    []*state
	from   int
	record record.Record
	live   bool
}

func (m *model) checkSide(w *world, s side, k int, count *[excuses]int64) string {
	got := remembered(s.record, m.names[k])
	sights := func(states uint64) func(int) sight {
		return func(at int) sight {
			switch bit := uint64(1) << (at + s.from); {
			case states&bit == 0:
				return notObserved
			case k == 0 && w.unselected&bit != 0:
				return whileUnselected
			default:
				return observed
			}
		}
	}
	want := answer{value: last(s.log, k)}
	why := promised
	if got != want.value {
		if want = wanted(s.log, sights(w.observed), k, m.Taints[k]); want.allows(got) {
			why = want.why
		} else if want = wanted(s.log, sights(w.observed&^w.lost), k, m.Taints[k]); want.allows(got) {
			why = slowWriter
		} else if w.tooFar {
			why = tooFarBehind
		} else {
			return fmt.Sprintf("the record remembers %s as %q, and %q was wanted last", m.names[k], values[got], values[wanted(s.log, sights(w.observed), k, m.Taints[k]).value])
		}
	}
	count[why]++
	if !s.live {
		return ""
	}
	shown := w.tip().items[k]
	if s.record.Quarantined != nil {
		return ""
	}
	free := shown.owner == kubelet || shown.derived() || k == 0 && w.ignores || m.Taints[k] && shown.brought != none && shown.value == shown.brought
	if shown.value != got && !free {
		return fmt.Sprintf("the Node shows %s as %q, and %q is remembered", m.names[k], values[shown.value], values[got])
	}
	return ""
}
