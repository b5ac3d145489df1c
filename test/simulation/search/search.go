package search

import "time"

// Space is what is explored: its worlds, and the steps that lead from one to the next.
type Space[World, Step any, Hash comparable] struct {
	Start func() World
	Hash  func(*World) Hash // stands for all that the future of a world and its check depend on
	Steps func(*World) []Step
	Apply func(*World, Step) bool        // carries out a step, and reports whether it changed anything
	Works func(Step) bool                // a process that always continues takes the step
	Wrong func(*World) string            // what is wrong with any world
	Judge func(*World) string            // what is wrong with a world in which no process has anything to do
	Text  func(Step) string              // one line
	Tell  func(prev, next *World) string // what a step did, as comments
}

// Result is what an exploration found.
type Result struct {
	States, Checks int64
	Exhaustive     bool
	Violation      string
	Scenario       string // the shortest that is wrong
}

// explorer visits every world that can be reached.
type explorer[World, Step any, Hash comparable] struct {
	*Space[World, Step, Hash]
	visited   map[Hash]struct{}
	ancestors map[Hash]struct{} // the worlds on the way to this one
	path      []Step
	deadline  time.Time
	Result
}

// Explore visits all worlds, unless that takes too long.
func (s *Space[World, Step, Hash]) Explore(limit time.Duration) Result {
	e := &explorer[World, Step, Hash]{Space: s, visited: map[Hash]struct{}{}, ancestors: map[Hash]struct{}{}, deadline: time.Now().Add(limit)}
	e.Exhaustive = true
	w := s.Start()
	if e.visit(&w); e.Violation != "" {
		e.Scenario = s.Show(s.shrink(e.path))
	}
	return e.Result
}

// visit leaves the path as it is where something is wrong.
func (e *explorer[World, Step, Hash]) visit(w *World) {
	h := e.Hash(w)
	if _, onPath := e.ancestors[h]; onPath {
		e.Violation = "captures never come to rest: this state of everything was there before"
		return
	}
	if _, known := e.visited[h]; known {
		return
	}
	e.visited[h], e.ancestors[h] = struct{}{}, struct{}{}
	defer delete(e.ancestors, h)
	if e.Violation = e.Wrong(w); e.Violation != "" {
		return
	}
	if e.States++; e.States%4096 == 0 && time.Now().After(e.deadline) {
		e.Exhaustive = false
		return
	}
	atRest := true
	for _, step := range e.Steps(w) {
		next := *w
		if !e.Apply(&next, step) {
			continue
		}
		atRest = atRest && !e.Works(step)
		e.path = append(e.path, step)
		if e.visit(&next); e.Violation != "" || !e.Exhaustive {
			return
		}
		e.path = e.path[:len(e.path)-1]
	}
	if atRest {
		e.Checks++
		e.Violation = e.Judge(w)
	}
}
