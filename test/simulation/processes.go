package main

import (
	"maps"
	"slices"

	"nodekeep.dev/nodekeep/policy"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

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
	if m.Losses > 0 {
		s.merged = w.merged
		s.hash = s.hash.mix(w.observed).mix(w.unselected).mix(w.soft).mix(w.lost).mix(uint64(w.settled))
	}
	records[len(w.records)] = s
	w.records = records
	w.recordsHash = w.recordsHash.add(s.hash)
}

// decodeBoth reads a record as the store does: a quarantined record is stored next to it.
func decodeBoth(data []byte, r record.Record) (record.Record, error) {
	decoded, err := record.Decode(data)
	decoded.Quarantined = r.Quarantined
	return decoded, err
}

// observe merges a state into the record as it is, and writes that if it is worth a write.
func (m *model) observe(w *world, i int, o record.Observation) (wrote bool) {
	prev := w.record()
	current, transition := m.transition(prev, w.log[i].machine, o)
	next := record.Merge(current, o)
	if o.Version >= next.Newest().Version {
		next.Machine = machines[w.log[i].machine].Merge(next.Machine)
	}
	wrote = transition != policy.Stays || record.WorthWriting(current, next, o, m.complete(w, &next, o))
	m.note(w, i, current, o, wrote, !w.ignores)
	if wrote {
		m.write(w, next)
	}
	return wrote
}

// transition returns the record that an observation of a machine is merged into.
func (m *model) transition(r record.Record, machine int8, o record.Observation) (record.Record, policy.Transition) {
	if newest := r.Newest(); o.UID == newest.UID || o.Version <= newest.Version {
		return r, policy.Stays
	}
	return m.policy.Transition(machines[machine], r, o.Version, deleted)
}

// note keeps which states were observed, for the oracle.
func (m *model) note(w *world, i int, prev record.Record, o record.Observation, wrote, selected bool) {
	bit := uint64(1) << i
	if !taken(prev, o) || prev.Floor > 0 && len(prev.Seen) == record.MaxObjects && o.Version < prev.Seen[0].Version {
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
		w.lost |= w.soft &^ (bit<<1 - 1) & w.statesOf(w.log[i].object)
	}
}

// taken reports whether an observation counts for the record, or for one that it keeps of another machine.
func taken(r record.Record, o record.Observation) bool {
	foreign := o.Machine.Compare(r.Machine) == record.OtherMachine && o.Version < r.Newest().Version
	if o.Version > r.Floor && !foreign {
		return true
	}
	kept := r.Earlier
	if sameMachine := func(e record.Record) bool { return e.Machine == o.Machine }; o.Version > r.Floor && !slices.ContainsFunc(kept, sameMachine) { // the first one
		return true
	}
	if r.Quarantined != nil {
		kept = append([]record.Record{*r.Quarantined}, kept...)
	}
	return slices.ContainsFunc(kept, func(e record.Record) bool {
		return (e.Observed(o.UID) > 0 || o.Machine.Compare(e.Machine) == record.SameMachine) && o.Version > e.Floor
	})
}

// statesOf returns the states of an object.
func (w *world) statesOf(object int8) (states uint64) {
	for i, s := range w.log {
		if s.object == object {
			states |= 1 << i
		}
	}
	return states
}

// reconcile is one step of a capture: it writes the record, or it patches the Node, or it does nothing.
func (m *model) reconcile(w *world, i int) (done bool) {
	c := &w.captures[i]
	if c.taken == 0 || c.done {
		return false
	}
	pos := int(c.taken) - 1
	s := w.log[pos]
	prev := w.observed&^w.unselected | w.unselected<<32
	wrote := m.observe(w, pos, m.observation(w, pos))
	if s.deleted {
		c.done = true
		return true
	}
	if wrote {
		return true
	}
	live := &w.records[len(w.records)-1].Record
	if pos == len(w.log)-1 && m.patch(w, live, live) {
		return true
	}
	return prev != w.observed&^w.unselected|w.unselected<<32
}

// changes returns what a capture changes on the Node by a record. They are labels and taints to set, and those to remove. For taints, the live record
// decides.
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
	pos := len(w.log) - 1
	next := *w.tip()
	next.edited, next.bare = [maxKeys]bool{}, false
	o := m.observation(w, pos)
	if _, transition := m.transition(*restore, next.machine, o); transition != policy.Stays {
		return false
	}
	set, remove := m.changes(w, restore, live, o)
	w.broken = w.broken || restore.Quarantined != nil && len(set)+len(remove) > 0
	for k := range m.Keys {
		i := &next.items[k]
		if value, ok := set[m.names[k]]; ok {
			v := valueOf(value)
			w.broken = w.broken || v == noValue || i.Value != noValue && !m.decidedSince(w, k, *i, v)
			*i, changed = oracle.Item{Value: v, Given: v, From: versionOf(value, m.names[k], restore, live), Start: pos + 1}, true
		} else if slices.Contains(remove, m.names[k]) {
			w.broken = w.broken || !m.decidedSince(w, k, *i, noValue)
			*i, changed = oracle.Item{}, true
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

// decidedSince reports whether a client decided on a value, or on none, after what the Node shows was decided. Nothing else may take an item off
// a live Node, or change it there. An operator may have decided against the machine that it is from. A taint that a client has set back to the
// listed value is a limit. Nobody can tell it from nodekeep's.
func (m *model) decidedSince(w *world, k int, shown oracle.Item, value int8) bool {
	return shown.From > 0 && w.log[shown.From-1].void || slices.ContainsFunc(w.log[max(shown.From, 0):], func(s *state) bool { return s.edited[k] && s.items[k].Value == value }) ||
		slices.ContainsFunc(w.log, func(s *state) bool { return s.edited[k] && s.items[k].Restored(m.Taints[k]) })
}

// versionOf returns the version of the entry that has a value, of the records that a capture goes by; [oracle.NoState] if it has none.
func versionOf(value, name string, records ...*record.Record) int {
	for _, r := range records {
		if e, known := r.Entry(name); known && e.Value == value && e.Version > 0 {
			return int(e.Version)
		}
	}
	return oracle.NoState
}

// follow derives taint key 0 from label key 1.
func (m *model) follow(s *state) (changed bool) {
	if !m.Rule {
		return false
	}
	taint, want := &s.items[0], s.items[1].Value != noValue
	switch {
	case want && taint.Value == noValue:
		taint.Value, taint.Owner, taint.Rule = kubeletValue, oracle.NoOwner, kubeletValue
	case !want && taint.Derived():
		taint.Value, taint.Rule = noValue, noValue
	default:
		return false
	}
	return true
}

// register is a CREATE, with what the webhook restores from a record; nil: the webhook is down.
func (m *model) register(w *world, from *record.Record, brings int8, by oracle.Owner, machine int8) {
	s := state{object: m.Objects - w.left.objects + 1, machine: machine, side: machine}
	w.left.objects--
	if brings != noValue {
		i := &s.items[0]
		i.Value, i.Owner = brings, by
		s.edited[0] = by == oracle.NoOwner && brings != kubeletValue
	}
	if from != nil {
		rec, _ := m.policy.Transition(machines[machine], *from, 0, deleted)
		for k := range m.Keys {
			v, i := remembered(rec, m.names[k]), &s.items[k]
			switch {
			case v == noValue:
			case i.Value != noValue:
				i.Brought = i.Value
			case rec.WholeRecordQuarantined() || w.ignores && k == 0 || m.Protected && k == 0:
			default:
				i.Value, i.Given, i.From = v, v, versionOf(values[v], m.names[k], &rec)
			}
		}
	}
	if brings == kubeletValue && m.Taints[0] && s.items[0].Brought == noValue {
		s.edited[0] = true // nobody can tell it from a client's
	}
	if from != nil {
		m.follow(&s)
	}
	w.push(s)
}
