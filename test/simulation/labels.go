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
func (s settings) labels(filter *regexp.Regexp, out io.Writer) (ok bool, states, checks int64, err error) {
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
		if !filter.MatchString(p.name) {
			continue
		}
		b := p.bounds
		override(s.objects, &b.Objects)
		override(s.edits, &b.Edits)
		override(s.faults, &b.Faults)
		override(s.captures, &b.Captures)
		begin := time.Now()
		r, excused, err := labels.Explore(b, s.limit)
		if err != nil {
			return false, states, checks, fmt.Errorf("explore %s: %w", p.name, err)
		}
		states, checks = states+r.States, checks+r.Checks
		size := fmt.Sprintf("%d objects, %d captures, %d edits, %d faults", b.Objects, b.Captures, b.Edits, b.Faults)
		s.print(out, p.name, size, r, time.Since(begin), fmt.Sprintf("excused: %d unobserved", excused), "labels", b)
		if r.Violation != "" || !r.Exhaustive {
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
