package main

import (
	"math/rand/v2"
	"slices"
	"time"

	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// walk goes through random scenarios. In each, captures work in most of the steps.
func (m *model) walk(scenarios int64, steps int, seed uint64, limit time.Duration) (r result) {
	const captureBias = 0.4
	until := time.Now().Add(limit)
	random := rand.New(rand.NewPCG(seed, 1))
	for r.Exhaustive = true; r.Checks < scenarios && r.Violation == ""; r.Checks++ {
		if r.Checks%64 == 0 && time.Now().After(until) {
			r.Exhaustive = false
			break
		}
		w, path := m.start(), []step(nil)
		for range steps {
			all := m.steps(&w)
			if len(all) == 0 || len(w.log) > maxStates/2 {
				break
			}
			s := all[random.IntN(len(all))]
			if working := slices.DeleteFunc(slices.Clone(all), func(s step) bool { return !s.kind.captures() }); len(working) > 0 && random.Float64() < captureBias {
				s = working[random.IntN(len(working))]
			}
			m.do(&w, s)
			r.States++
			path = append(path, s)
		}
		path = append(path, m.rest(&w)...)
		if wrong := m.judgeAtRest(&w, &r.Excused); wrong != "" {
			r.Violation, r.Scenario = wrong, path
		}
	}
	return r
}

// captures reports whether the step is one of a capture at work.
func (k kind) captures() bool { return k == reconciles || k == takes }

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
