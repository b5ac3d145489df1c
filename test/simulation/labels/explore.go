package labels

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// Result is what an exploration found.
type Result struct {
	States, Checks, Excused int64
	Exhaustive              bool
	Violation, Scenario     string
}

type explorer struct {
	*model
	visited, open map[sum]struct{}
	path          []string
	until         time.Time
	Result
}

// Explore visits every world within the bounds.
func Explore(b Bounds, limit time.Duration) (Result, error) {
	m, err := newModel(b)
	if err != nil {
		return Result{}, err
	}
	e := &explorer{model: m, visited: map[sum]struct{}{}, open: map[sum]struct{}{}, until: time.Now().Add(limit)}
	e.Exhaustive = true
	w := m.start()
	e.visit(&w)
	if e.Violation != "" {
		_, e.Scenario, err = m.replay(m.shrink(e.path))
	}
	return e.Result, err
}

func (e *explorer) visit(w *world) {
	if e.Violation != "" || !e.Exhaustive {
		return
	}
	h := w.hash()
	if _, open := e.open[h]; open || len(w.log) > maxStates {
		e.Violation = restless
		return
	}
	if _, known := e.visited[h]; known {
		return
	}
	e.visited[h], e.open[h] = struct{}{}, struct{}{}
	defer delete(e.open, h)
	if e.States++; e.States%1024 == 0 && time.Now().After(e.until) {
		e.Exhaustive = false
		return
	}
	if e.Violation = w.wrong; w.wrong != "" {
		return
	}
	atRest := true
	for _, s := range e.steps(w) {
		next := *w
		if !s.do(&next) {
			continue
		}
		atRest = atRest && !s.worked
		e.path = append(e.path, s.text)
		if e.visit(&next); e.Violation != "" {
			return
		}
		e.path = e.path[:len(e.path)-1]
	}
	if atRest {
		e.Checks++
		wrong, known := e.judge(w)
		if e.Violation = wrong; !known {
			e.Excused++
		}
	}
}

const restless = "captures never come to rest"

// judge checks a world in which no capture has anything to do.
func (m *model) judge(w *world) (wrong string, known bool) {
	if w.wrong != "" {
		return w.wrong, true
	}
	ended, same := m.ended(w)
	if !same || !w.live() {
		return "", true
	}
	if m.Rule != "" {
		return oracle.Ruled(w.history(), m.Rule, ended)
	}
	return oracle.Renamed(w.history(), ended)
}

// replay carries out steps, one a line, and lets captures finish. It returns what is wrong in the end, and the scenario with what each step did.
func (m *model) replay(steps []string) (wrong, scenario string, err error) {
	var b strings.Builder
	w := m.start()
	do := func(s step) bool {
		states, written := len(w.log), len(w.records)
		next := w
		if !s.do(&next) {
			return false
		}
		w = next
		fmt.Fprintln(&b, s.text)
		for at := states; at < len(w.log); at++ {
			fmt.Fprintf(&b, "#   version %d: U%d old=%q new=%q deleted=%t %v\n", at+1, w.log[at].Object, w.log[at].Old, w.log[at].New, w.log[at].deleted, w.log[at].annotations)
		}
		for at := written; at < len(w.records); at++ {
			fmt.Fprintf(&b, "#   record %d: %+v\n", at, w.records[at].Entries)
		}
		return true
	}
	for _, text := range steps {
		found := false
		for _, s := range m.steps(&w) {
			if s.text == text {
				found = do(s)
				break
			}
		}
		if !found {
			return "", b.String(), fmt.Errorf("step cannot happen here: %q", text)
		}
		if w.wrong != "" {
			return w.wrong, b.String(), nil
		}
	}
	for again := true; again && w.wrong == ""; {
		if again = false; len(w.log) > maxStates {
			return restless, b.String(), nil
		}
		for _, s := range m.steps(&w) {
			if again = s.worked && do(s); again {
				break
			}
		}
	}
	wrong, _ = m.judge(&w)
	return wrong, b.String(), nil
}

// shrink leaves out steps for as long as what is left is wrong still.
func (m *model) shrink(steps []string) []string {
	for i := 0; i < len(steps); i++ {
		without := append(append([]string(nil), steps[:i]...), steps[i+1:]...)
		if wrong, _, err := m.replay(without); err == nil && wrong != "" {
			steps, i = without, -1
		}
	}
	return steps
}

// Replay carries out a scenario as it was printed.
func Replay(b Bounds, scenario io.Reader, out io.Writer) (ok bool, err error) {
	m, err := newModel(b)
	if err != nil {
		return false, err
	}
	var steps []string
	lines := bufio.NewScanner(scenario)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			steps = append(steps, line)
		}
	}
	if err := lines.Err(); err != nil {
		return false, err
	}
	wrong, text, err := m.replay(steps)
	fmt.Fprint(out, text)
	if err != nil {
		return false, err
	}
	if wrong == "" {
		fmt.Fprintln(out, "nothing is wrong")
		return true, nil
	}
	fmt.Fprintln(out, wrong)
	return false, nil
}
