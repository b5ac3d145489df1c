package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/test/simulation/labels"
	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// labels explores migrations and rules for labels, each part within its own bounds.
func (s settings) labels(only *regexp.Regexp, out io.Writer) (ok bool, states, checks int64, err error) {
	for _, p := range []struct {
		name   string
		bounds labels.Bounds
	}{
		{"renames", labels.Bounds{Objects: 2, Captures: 1, Edits: 1, Faults: 1}},
		{"renames-edits", labels.Bounds{Objects: 1, Captures: 1, Edits: 3, Faults: 1}},
		{"renames-captures", labels.Bounds{Objects: 1, Captures: 2, Edits: 1, Faults: 1}},
		{"label-rules", labels.Bounds{Objects: 2, Captures: 1, Edits: 2, Faults: 0, Rule: oracle.OperatorWins}},
		{"label-rules-win", labels.Bounds{Objects: 2, Captures: 1, Edits: 2, Faults: 0, Rule: oracle.RuleWins}},
		{"label-rules-absent", labels.Bounds{Objects: 2, Captures: 1, Edits: 2, Faults: 0, Rule: oracle.KeptOff}},
		{"label-rules-edits", labels.Bounds{Objects: 1, Captures: 1, Edits: 3, Faults: 1, Rule: oracle.RuleWins}},
	} {
		if !only.MatchString(p.name) {
			continue
		}
		b := p.bounds
		for _, flag := range []struct {
			set  int
			into *int
		}{{s.objects, &b.Objects}, {s.edits, &b.Edits}, {s.faults, &b.Faults}, {s.captures, &b.Captures}} {
			if flag.set >= 0 {
				*flag.into = flag.set
			}
		}
		begin := time.Now()
		r, excused, err := labels.Explore(b, s.limit)
		if err != nil {
			return false, states, checks, fmt.Errorf("explore %s: %w", p.name, err)
		}
		states, checks = states+r.States, checks+r.Checks
		fmt.Fprintf(out, "%-19s %d objects, %d captures, %d edits, %d faults: %d states, %d at rest, %s; excused: %d unobserved\n", p.name, b.Objects, b.Captures, b.Edits, b.Faults,
			r.States, r.Checks, time.Since(begin).Round(10*time.Millisecond), excused)
		if !r.Exhaustive {
			fmt.Fprintf(out, "%s: not exhaustive within %s\n", p.name, s.limit)
		}
		if r.Violation != "" {
			line, err := json.Marshal(b)
			fmt.Fprintf(out, "VIOLATION in %s: %s\n# labels %s\n%s", p.name, r.Violation, line, r.Scenario)
			return false, states, checks, err
		}
		if !r.Exhaustive {
			return false, states, checks, nil
		}
	}
	return true, states, checks, nil
}

// replayLabels carries out a scenario of a migration or of a rule for labels. If it is another scenario, found is false.
func replayLabels(scenario string, out io.Writer) (ok, found bool, err error) {
	_, text, found := strings.Cut(scenario, "# labels ")
	if !found {
		return false, false, nil
	}
	line, steps, _ := strings.Cut(text, "\n")
	var b labels.Bounds
	if err := json.Unmarshal([]byte(line), &b); err != nil {
		return false, true, fmt.Errorf("read bounds of scenario: %w", err)
	}
	ok, err = labels.Replay(b, strings.NewReader(steps), out)
	return ok, true, err
}
