package labels

import (
	"fmt"
	"maps"

	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// step is one thing that happens.
type step struct {
	text   string
	worked bool // by a capture, which always continues
	run    func(*world) bool
}

// steps returns all that can happen next.
func (m *model) steps(w *world) (all []step) {
	add := func(worked bool, fn func(*world) bool, format string, args ...any) {
		all = append(all, step{fmt.Sprintf(format, args...), worked, fn})
	}
	for i := range m.Captures {
		c := w.captures[i]
		if c.taken > 0 {
			add(true, func(w *world) bool { return m.works(w, i) }, "capture %d works", i+1)
		}
		if c.taken < len(w.log) {
			add(true, func(w *world) bool { w.captures[i].taken++; w.captures[i].blind = false; return true }, "capture %d takes the next state from its queue", i+1)
		}
		if w.left.Faults > 0 && len(w.log) > 0 && c.taken < len(w.log) {
			add(false, func(w *world) bool {
				w.left.Faults--
				w.captures[i].taken, w.captures[i].blind = len(w.log), !w.live()
				return true
			}, "capture %d restarts", i+1)
		}
		if !c.ended && len(w.log) > 0 {
			add(false, func(w *world) bool { m.ends(w, i); return true }, "capture %d follows %s", i+1, m.next())
		}
	}
	if w.live() {
		m.edits(w, add)
	} else if w.left.Objects > 0 {
		add(false, func(w *world) bool { return m.registers(w, w.newest(), true) }, "the Node registers")
		if w.left.Faults > 0 && len(w.records) > 1 {
			add(false, func(w *world) bool { w.left.Faults--; return m.registers(w, nil, false) }, "the Node registers while the webhook is down")
			for i := 1; i < len(w.records)-1; i++ {
				add(false, func(w *world) bool { w.left.Faults--; return m.registers(w, w.records[i], false) }, "the Node registers, and the webhook has record %d", i)
			}
		}
	}
	return all
}

// next names the policy that captures follow next.
func (m *model) next() string {
	if m.Rule == "" {
		return "phase new"
	}
	return "the policy without the rule"
}

func (m *model) ends(w *world, i int) {
	first := true
	for _, c := range w.captures {
		first = first && !c.ended
	}
	if first {
		w.older = w.seen
	}
	w.captures[i].ended = true
}

// edits are what operators do.
func (m *model) edits(w *world, add func(bool, func(*world) bool, string, ...any)) {
	now := w.tip()
	add(false, func(w *world) bool {
		s := *w.tip()
		s.deleted, s.Edited = true, oracle.NoKey
		w.push(s)
		return true
	}, "an operator deletes the Node")
	if w.left.Edits == 0 {
		return
	}
	for _, key := range []oracle.Key{oracle.OldKey, oracle.NewKey} {
		if m.Rule != "" && key == oracle.OldKey {
			continue
		}
		name, old := oldKey, now.Old
		if key == oracle.NewKey {
			name, old = newKey, now.New
		}
		for _, value := range []string{"", "one", "two"} {
			if value == old || value == "two" && m.Rule == "" && !w.used() {
				continue
			}
			edit := func(w *world) bool {
				w.left.Edits--
				s := *w.tip()
				s.owned, s.Edited = maps.Clone(s.owned), key
				if s.owned == nil {
					s.owned = map[string]string{}
				}
				if s.owned[name] = "client"; value == "" {
					delete(s.owned, name)
				}
				if key == oracle.OldKey {
					s.Old = value
				} else {
					s.New = value
				}
				w.push(s)
				return true
			}
			if value == "" {
				add(false, edit, "an operator removes %s", name)
			} else {
				add(false, edit, "an operator sets %s to %s", name, value)
			}
		}
	}
}

// used reports whether an operator has set a value. A scenario with the values exchanged is the same scenario.
func (w *world) used() bool {
	for _, s := range w.log {
		if s.Old != "" || s.New != "" {
			return true
		}
	}
	return false
}
