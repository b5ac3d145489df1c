package main

import (
	"fmt"
	"slices"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// check reports what is wrong in a world in which no process has anything to do. It is empty if nothing is.
func (m *model) check(w *world, count *[oracle.Excuses]int64) string {
	if w.broken {
		return "a Node was changed by a record in quarantine, to a value that no record has, or to what no client decided since its own value"
	}
	for k := range m.Keys {
		for side, r := range w.sides() {
			if wrong := m.checkSide(w, side, r, k, count); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// sides returns the machines that something of the log counts for, each with its record.
func (w *world) sides() map[int8]record.Record {
	sides := map[int8]record.Record{}
	for _, s := range w.log {
		sides[s.side] = record.Record{}
	}
	current := w.record()
	for _, r := range append(current.Earlier, current) {
		sides[sideOf(r.Machine)] = r
	}
	if current.WholeRecordQuarantined() {
		sides[sideOf(current.Quarantined.Machine)] = *current.Quarantined
	}
	return sides
}

// sideOf returns the index of a machine.
func sideOf(machine record.Machine) int8 {
	return int8(slices.Index(machines[:], machine))
}

func (m *model) checkSide(w *world, side int8, r record.Record, k int, count *[oracle.Excuses]int64) string {
	got := remembered(r, m.names[k])
	q := oracle.Question{Log: about(w.log, side, k), Taint: m.Taints[k]}
	if k == 0 {
		q.Settled = w.settled
	}
	wanted := func(states uint64) oracle.Answer {
		q.Seen = func(i int) oracle.Observation {
			switch bit := uint64(1) << i; {
			case states&bit == 0, w.log[i].side != side:
				return oracle.NotObserved
			case k == 0 && w.unselected&bit != 0:
				return oracle.WhileUnselected
			default:
				return oracle.Observed
			}
		}
		return q.Wanted()
	}
	excuse := oracle.Promised
	if got != q.Last() {
		want := wanted(w.observed)
		switch {
		case want.Allows(got):
			excuse = want.Excuse
		case wanted(w.observed &^ w.lost).Allows(got):
			excuse = oracle.SlowWriter
		case w.tooFar:
			excuse = oracle.TooFarBehind
		default:
			return fmt.Sprintf("the record remembers %s as %q, and %q was wanted last", m.names[k], values[got], values[want.Value])
		}
	}
	count[excuse]++
	if !w.live() || w.tip().side != side || r.Quarantined != nil {
		return ""
	}
	shown := w.tip().items[k]
	free := shown.Owner == oracle.Kubelet || shown.Derived() || k == 0 && w.ignores || m.Taints[k] && shown.Brought != noValue && shown.Value == shown.Brought
	if shown.Value != got && !free {
		return fmt.Sprintf("the Node shows %s as %q, and %q is recorded", m.names[k], values[shown.Value], values[got])
	}
	return ""
}
