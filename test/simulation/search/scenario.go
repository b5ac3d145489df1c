package search

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Show returns a scenario as text, with what each did.
func (s *Space[World, Step, Hash]) Show(steps []Step) string {
	var b strings.Builder
	w := s.Start()
	for _, step := range steps {
		prev := w
		s.Apply(&w, step)
		fmt.Fprintln(&b, s.Text(step))
		b.WriteString(s.Tell(&prev, &w))
	}
	return b.String()
}

// Replay carries out a scenario, lets the processes finish, and writes what happened and what is wrong in the end.
func (s *Space[World, Step, Hash]) Replay(scenario io.Reader, out io.Writer) (ok bool, err error) {
	w, steps, err := s.Read(scenario)
	if err != nil {
		return false, fmt.Errorf("replay scenario: %w", err)
	}
	steps = append(steps, s.Rest(&w)...)
	wrong := s.JudgeAtRest(&w)
	fmt.Fprintf(out, "%s%s\n", s.Show(steps), cmp.Or(wrong, "nothing is wrong"))
	return wrong == "", nil
}

// Read carries out a scenario. It fails at a line that is no step that can happen there.
func (s *Space[World, Step, Hash]) Read(scenario io.Reader) (w World, steps []Step, err error) {
	w = s.Start()
	lines := bufio.NewScanner(scenario)
	for number := 1; lines.Scan() && s.Wrong(&w) == ""; number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		step, found := s.find(&w, line)
		if !found {
			return w, steps, fmt.Errorf("line %d: %q cannot happen here", number, line)
		}
		s.Apply(&w, step)
		steps = append(steps, step)
	}
	return w, steps, lines.Err()
}

// find returns the step of that text, if it can happen.
func (s *Space[World, Step, Hash]) find(w *World, text string) (step Step, found bool) {
	steps := s.Steps(w)
	i := slices.IndexFunc(steps, func(step Step) bool { return s.Text(step) == text })
	if i < 0 {
		return step, false
	}
	return steps[i], true
}

// mostSteps is how many steps processes take until they come to rest, at most.
const mostSteps = 1000

// Rest lets all processes finish what they have to do, and returns the steps.
func (s *Space[World, Step, Hash]) Rest(w *World) (steps []Step) {
	for done := true; done && len(steps) < mostSteps && s.Wrong(w) == ""; {
		done = false
		for _, step := range s.Steps(w) {
			if next := *w; s.Works(step) && s.Apply(&next, step) {
				*w, done, steps = next, true, append(steps, step)
				break
			}
		}
	}
	return steps
}

// JudgeAtRest returns what is wrong with a world in which the processes have finished, if they ever do.
func (s *Space[World, Step, Hash]) JudgeAtRest(w *World) string {
	if wrong := s.Wrong(w); wrong != "" {
		return wrong
	}
	return s.Judge(w)
}

// run carries out steps, leaves out those that cannot happen, lets the processes finish, and judges.
func (s *Space[World, Step, Hash]) run(steps []Step) (done []Step, violation string) {
	w := s.Start()
	for _, step := range steps {
		if step, found := s.find(&w, s.Text(step)); found && s.Wrong(&w) == "" {
			s.Apply(&w, step)
			done = append(done, step)
		}
	}
	done = append(done, s.Rest(&w)...)
	return done, s.JudgeAtRest(&w)
}

// shrink leaves out steps for as long as what is left is wrong still.
func (s *Space[World, Step, Hash]) shrink(steps []Step) []Step {
	if done, violation := s.run(steps); violation == "" {
		return steps // captures that never come to rest: that is in the way, not in the end
	} else if len(done) < len(steps) {
		steps = done
	}
	for changed := true; changed; {
		changed = false
		for i := 0; i < len(steps); i++ {
			for n := 3; n > 0; n-- {
				if i+n > len(steps) { // they have become fewer
					continue
				}
				rest := slices.Concat(steps[:i], steps[i+n:])
				if done, violation := s.run(rest); violation != "" && len(done) < len(steps) {
					steps, changed = done, true
				}
			}
		}
	}
	return steps
}
