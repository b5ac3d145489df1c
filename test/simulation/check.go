package main

import (
	"fmt"

	"nodekeep.dev/nodekeep/record"
)

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
