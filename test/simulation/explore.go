package main

import (
	"time"

	"nodekeep.dev/nodekeep/test/simulation/oracle"
	"nodekeep.dev/nodekeep/test/simulation/search"
)

// result is what an exploration found.
type result struct {
	search.Result
	Excused [oracle.Excuses]int64
}

func (m *model) explore(limit time.Duration) (r result) {
	r.Result = m.space(&r.Excused).Explore(limit)
	return r
}

// space returns all that can happen to a Node, and counts the excuses of what is checked.
func (m *model) space(count *[oracle.Excuses]int64) *search.Space[world, step, hash] {
	return &search.Space[world, step, hash]{
		Start: m.start, Hash: m.hash, Steps: m.steps, Apply: m.step, Wrong: (*world).restless, Text: m.text, Tell: m.tell,
		Works: func(s step) bool { return s.kind == reconciles || s.kind == takes },
		Judge: func(w *world) string { return m.judge(w, count) },
	}
}

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
