package main

import (
	"slices"

	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// judgeAtRest is judge for a world in which captures have finished, if they ever do.
func (m *model) judgeAtRest(w *world, count *[oracle.Excuses]int64) string {
	if wrong := w.restless(); wrong != "" {
		return wrong
	}
	return m.judge(w, count)
}

// run carries out steps, leaves out those that cannot happen, lets captures finish, and judges.
func (m *model) run(steps []step) (did []step, violation string) {
	w := m.start()
	for _, s := range steps {
		if slices.Contains(m.steps(&w), s) {
			m.do(&w, s)
			did = append(did, s)
		}
	}
	did = append(did, m.rest(&w)...)
	return did, m.judgeAtRest(&w, new([oracle.Excuses]int64))
}

// shrink leaves out steps for as long as what is left is wrong still.
func (m *model) shrink(steps []step) []step {
	if did, violation := m.run(steps); violation == "" {
		return steps // captures that never come to rest: that is in the way, not in the end
	} else if len(did) < len(steps) {
		steps = did
	}
	for again := true; again; {
		again = false
		for i := 0; i < len(steps); i++ {
			for n := min(3, len(steps)-i); n > 0; n-- {
				without := slices.Concat(steps[:i], steps[i+n:])
				if did, violation := m.run(without); violation != "" && len(did) < len(steps) {
					steps, again = did, true
				}
			}
		}
	}
	return steps
}
