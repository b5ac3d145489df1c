package main

import (
	"fmt"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// check reports what is wrong in a world in which no process has anything to do. It is empty if nothing is.
func (m *model) check(w *world, count *[oracle.Excuses]int64) string {
	if w.broken {
		return "a Node was changed by a record in quarantine, to a value that no record has, or to what no client decided since its own value"
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

func (m *model) checkSide(w *world, s side, k int, count *[oracle.Excuses]int64) string {
	got := remembered(s.record, m.names[k])
	q := oracle.Question{Log: about(s.log, k), Taint: m.Taints[k]}
	if k == 0 {
		q.Settled = w.settled
	}
	wanted := func(states uint64) oracle.Answer {
		q.Seen = func(at int) oracle.Observation {
			switch bit := uint64(1) << (at + s.from); {
			case states&bit == 0:
				return oracle.NotObserved
			case k == 0 && w.unselected&bit != 0:
				return oracle.WhileUnselected
			default:
				return oracle.Observed
			}
		}
		return q.Wanted()
	}
	why := oracle.Promised
	if got != q.Last() {
		want := wanted(w.observed)
		switch {
		case want.Allows(got):
			why = want.Why
		case wanted(w.observed &^ w.lost).Allows(got):
			why = oracle.SlowWriter
		case w.tooFar:
			why = oracle.TooFarBehind
		default:
			return fmt.Sprintf("the record remembers %s as %q, and %q was wanted last", m.names[k], values[got], values[want.Value])
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
	free := shown.Owner == oracle.Kubelet || shown.Derived() || k == 0 && w.ignores || m.Taints[k] && shown.Brought != none && shown.Value == shown.Brought
	if shown.Value != got && !free {
		return fmt.Sprintf("the Node shows %s as %q, and %q is recorded", m.names[k], values[shown.Value], values[got])
	}
	return ""
}
