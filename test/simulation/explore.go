package main

import (
	"time"

	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// More states of Nodes, or records written, than a scenario can have if captures come to rest.
const (
	maxStates  = 62
	maxRecords = 120
)

// restless reports that captures work for ever; it is empty if they may come to rest.
func (w *world) restless() string {
	switch {
	case len(w.log) > maxStates:
		return "captures never come to rest: they patch the Node for ever"
	case len(w.records) > maxRecords:
		return "captures never come to rest: they write the record for ever"
	default:
		return ""
	}
}

// result is what an exploration found.
type result struct {
	States, Checks int64
	Excused        [oracle.Excuses]int64
	Exhaustive     bool
	Violation      string
	Scenario       []step
}

// explorer visits every world that can be reached.
type explorer struct {
	*model
	visited map[hash]struct{}
	open    map[hash]struct{} // the worlds on the way to this one
	path    []step
	until   time.Time
	result
}

func (m *model) explore(limit time.Duration) result {
	e := &explorer{model: m, visited: map[hash]struct{}{}, open: map[hash]struct{}{}, until: time.Now().Add(limit)}
	e.Exhaustive = true
	w := m.start()
	e.visit(&w)
	return e.result
}

func (e *explorer) stop(violation string) {
	if e.Violation == "" {
		e.Violation, e.Scenario = violation, append([]step(nil), e.path...)
	}
}

func (e *explorer) visit(w *world) {
	if e.Violation != "" || !e.Exhaustive {
		return
	}
	h := e.hash(w)
	if _, known := e.open[h]; known {
		e.stop("captures never come to rest: this state of everything was there before")
		return
	}
	if _, known := e.visited[h]; known {
		return
	}
	e.visited[h], e.open[h] = struct{}{}, struct{}{}
	defer delete(e.open, h)
	if wrong := w.restless(); wrong != "" {
		e.stop(wrong)
		return
	}
	if e.States++; e.States%4096 == 0 && time.Now().After(e.until) {
		e.Exhaustive = false
		return
	}
	atRest := true
	for _, s := range e.steps(w) {
		next := *w
		if !e.do(&next, s) {
			continue
		}
		atRest = atRest && s.kind != reconciles && s.kind != takes
		e.path = append(e.path, s)
		e.visit(&next)
		e.path = e.path[:len(e.path)-1]
	}
	if atRest {
		e.Checks++
		if wrong := e.judge(w, &e.Excused); wrong != "" {
			e.stop(wrong)
		}
	}
}

// judge checks a world in which no process has anything to do.
func (m *model) judge(w *world, count *[oracle.Excuses]int64) string {
	if wrong := m.check(w, count); wrong != "" {
		return wrong
	}
	if !w.live() {
		return ""
	}
	quiet := *w // a heartbeat must cause no write, and a restart neither
	beat := *w.tip()
	beat.edited, beat.bare = [maxKeys]bool{}, false
	quiet.push(beat)
	states, records := len(quiet.log), len(quiet.records)
	quiet.captures[0] = capture{taken: int8(states)}
	m.reconcile(&quiet, 0)
	if len(quiet.log) != states {
		return "a heartbeat causes a PATCH"
	}
	if len(quiet.records) != records {
		return "a heartbeat causes a write of the record"
	}
	return ""
}

// rest lets all captures finish what they have to do, and returns the steps.
func (m *model) rest(w *world) (steps []step) {
	for range 10 * maxStates {
		did := false
		for i := range int8(m.Captures) {
			for _, s := range []step{{kind: reconciles, a: i}, {kind: takes, a: i}} {
				if s.kind == takes && int(w.captures[i].taken) == len(w.log) {
					continue
				}
				if m.do(w, s) {
					steps, did = append(steps, s), true
					break
				}
			}
		}
		if !did || w.restless() != "" {
			break
		}
	}
	return steps
}
