package labels

import (
	"fmt"
	"io"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/test/simulation/oracle"
	"nodekeep.dev/nodekeep/test/simulation/search"
)

// Explore visits every world within the bounds. It also counts what is excused, because no capture observed it.
func Explore(b Bounds, limit time.Duration) (r search.Result, excused int64, err error) {
	m, err := newModel(b)
	if err != nil {
		return search.Result{}, 0, err
	}
	r = m.space(&excused).Explore(limit)
	return r, excused, nil
}

// Replay carries out a scenario as it was printed.
func Replay(b Bounds, scenario io.Reader, out io.Writer) (ok bool, err error) {
	m, err := newModel(b)
	if err != nil {
		return false, err
	}
	return m.space(new(int64)).Replay(scenario, out)
}

func (m *model) space(excused *int64) *search.Space[world, step, sum] {
	return &search.Space[world, step, sum]{
		Start: m.start, Hash: (*world).hash, Steps: m.steps, Wrong: (*world).isWrong, Tell: tell,
		Apply: func(w *world, s step) bool { return s.run(w) },
		Works: func(s step) bool { return s.worked },
		Text:  func(s step) string { return s.text },
		Judge: func(w *world) string {
			wrong, known := m.judge(w)
			if !known {
				*excused++
			}
			return wrong
		},
	}
}

// isWrong returns what is wrong with a world, whatever is still to be done.
func (w *world) isWrong() string {
	if w.wrong == "" && len(w.log) > maxStates {
		return "captures never come to rest"
	}
	return w.wrong
}

// judge checks a world in which no capture has anything to do.
func (m *model) judge(w *world) (wrong string, known bool) {
	ended, equal := m.ended(w)
	switch {
	case !equal || !w.live():
		return "", true
	case m.Rule != "":
		return oracle.Ruled(w.history(), m.Rule, ended)
	default:
		return oracle.Renamed(w.history(), ended)
	}
}

// tell returns what a step did: the states and the records.
func tell(prev, next *world) string {
	var b strings.Builder
	for i := len(prev.log); i < len(next.log); i++ {
		s := next.log[i]
		fmt.Fprintf(&b, "#   version %d: U%d old=%q new=%q deleted=%t %v\n", i+1, s.Object, s.Old, s.New, s.deleted, s.annotations)
	}
	for i := len(prev.records); i < len(next.records); i++ {
		fmt.Fprintf(&b, "#   record %d: %+v\n", i, next.records[i].Entries)
	}
	return b.String()
}
