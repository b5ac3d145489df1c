package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"

	"nodekeep.dev/nodekeep/test/simulation/oracle"
	"nodekeep.dev/nodekeep/test/simulation/search"
)

func main() {
	ok, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// settings are what flags say.
type settings struct {
	scenario                         string
	objects, edits, faults, captures int
	limit                            time.Duration
	length                           int
	replay                           string
}

func run(args []string, out io.Writer) (ok bool, err error) {
	var s settings
	flags := flag.NewFlagSet("simulation", flag.ContinueOnError)
	flags.StringVar(&s.scenario, "only", "", "explore only parts whose name matches this regular expression")
	flags.IntVar(&s.objects, "objects", -1, "Node objects of the name, instead of the bound of each part")
	flags.IntVar(&s.edits, "edits", -1, "changes by clients, instead of the bound of each part")
	flags.IntVar(&s.faults, "faults", -1, "faults, instead of the bound of each part")
	flags.IntVar(&s.captures, "captures", -1, "capture controllers, 1 or 2, instead of the bound of each part")
	flags.DurationVar(&s.limit, "limit", 10*time.Minute, "longest time for one part; beyond it the part is not exhaustive, and fails")
	flags.IntVar(&s.length, "length", 7, "states of a history whose observations are merged in every order; 0: none")
	flags.StringVar(&s.replay, "replay", "", "file with a scenario to replay, - for standard input")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	if s.replay != "" {
		return s.replayFile(out)
	}
	filter, err := regexp.Compile("^(" + cmp.Or(s.scenario, ".*") + ")$")
	if err != nil {
		return false, fmt.Errorf("read -only: %w", err)
	}
	begin := time.Now()
	ok, states, checks := true, int64(0), int64(0)
	for _, p := range suite() {
		if filter.MatchString(p.name) && ok {
			r := s.explore(p, out)
			ok = r.Violation == "" && r.Exhaustive
			states, checks = states+r.States, checks+r.Checks
		}
	}
	if ok {
		var extra, checked int64
		if ok, extra, checked, err = s.labels(filter, out); err != nil {
			return false, err
		}
		states, checks = states+extra, checks+checked
	}
	if s.length > 0 && ok {
		ok = s.orders(filter, out)
	}
	fmt.Fprintf(out, "total: %d states, %d of them at rest and checked, %s\n", states, checks, time.Since(begin).Round(time.Second))
	return ok, nil
}

func newModel(b bounds) *model {
	p, err := policy.Load([]byte(policytest.Manifest(fmt.Sprintf("machine: {onMismatch: %s}\n", cmp.Or(b.Machines, policy.RestoreAnyway)))), policy.DefaultGate)
	if err != nil {
		panic(err)
	}
	return &model{bounds: b, names: keyNames(b.Taints), policy: p}
}

// withBounds returns the bounds of a part with those that flags set.
func (s settings) withBounds(b bounds) bounds {
	override(s.objects, &b.Objects)
	override(s.edits, &b.Edits)
	override(s.faults, &b.Faults)
	if s.captures > 0 {
		b.Captures = min(s.captures, 2)
	}
	b.Values = 2
	return b
}

// override sets a bound where a flag says so.
func override[N int | int8](flag int, bound *N) {
	if flag >= 0 {
		*bound = N(flag)
	}
}

func (s settings) explore(p part, out io.Writer) result {
	m := newModel(s.withBounds(p.bounds))
	begin := time.Now()
	r, b := m.explore(s.limit), m.bounds
	size := fmt.Sprintf("%d objects, %d captures, %d edits, %d faults", b.Objects, b.Captures, b.Edits, b.Faults)
	s.print(out, p.name, size, r.Result, time.Since(begin), excused(r.Excused), "bounds", b)
	return r
}

// print writes what an exploration found. What is wrong can be replayed: its bounds, its steps, and what each step did.
func (s settings) print(out io.Writer, name, size string, r search.Result, took time.Duration, excused, head string, bounds any) {
	fmt.Fprintf(out, "%-19s %s: %d states, %d at rest, %s; %s\n", name, size, r.States, r.Checks, took.Round(10*time.Millisecond), excused)
	if !r.Exhaustive {
		fmt.Fprintf(out, "%s: not exhaustive within %s\n", name, s.limit)
	}
	if r.Violation != "" {
		line, err := json.Marshal(bounds)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(out, "VIOLATION in %s: %s\n# %s %s\n%s", name, r.Violation, head, line, r.Scenario)
	}
}

func excused(counts [oracle.Excuses]int64) string {
	var parts []string
	for reason, n := range counts {
		if n > 0 && oracle.Excuse(reason) != oracle.Promised {
			parts = append(parts, fmt.Sprintf("%d %s", n, oracle.Excuse(reason)))
		}
	}
	return fmt.Sprintf("%d as promised, excused: %s", counts[oracle.Promised], cmp.Or(strings.Join(parts, ", "), "none"))
}

func (s settings) orders(filter *regexp.Regexp, out io.Writer) bool {
	for _, p := range []struct {
		name     string
		bounds   bounds
		unstamps bool
	}{
		{"label-orders", bounds{Keys: 1, Values: 2, Objects: 2, Admission: true}, false},
		{"owner-orders", bounds{Keys: 1, Values: 2, Objects: 2, Owned: true}, false},
		{"taint-orders", bounds{Keys: 1, Values: 2, Objects: 2, Taints: [maxKeys]bool{true}}, false},
		{"kubelet-orders", bounds{Keys: 1, Values: 2, Objects: 2, Kubelet: true}, false},
		{"kubelet-taint-orders", bounds{Keys: 1, Values: 2, Objects: 2, Taints: [maxKeys]bool{true}, Kubelet: true}, false},
		{"annotation-orders", bounds{Keys: 1, Values: 2, Objects: 2}, true},
		{"object-orders", bounds{Keys: 1, Values: 2, Objects: 3}, false},
	} {
		if !filter.MatchString(p.name) {
			continue
		}
		begin := time.Now()
		r := newModel(p.bounds).orders(s.length, p.unstamps, s.limit)
		fmt.Fprintf(out, "%-19s up to %d states of %d objects: %d histories, %d subsets of observations in %d orders, each with any repeated, %s; %s\n", p.name, s.length, p.bounds.Objects,
			r.Histories, r.Subsets, r.Orders, time.Since(begin).Round(10*time.Millisecond), excused(r.Excused))
		if r.Violation != "" || !r.Exhaustive {
			fmt.Fprintf(out, "VIOLATION in %s: %s\n", p.name, cmp.Or(r.Violation, "not exhaustive"))
			return false
		}
	}
	return true
}

// replayFile carries out a scenario as it was printed, and shows what is wrong with it.
func (s settings) replayFile(out io.Writer) (ok bool, err error) {
	data, err := io.ReadAll(os.Stdin)
	if s.replay != "-" {
		data, err = os.ReadFile(s.replay)
	}
	if err != nil {
		return false, fmt.Errorf("read scenario: %w", err)
	}
	if ok, found, err := replayLabels(string(data), out); found {
		return ok, err
	}
	var b bounds
	_, text, found := strings.Cut(string(data), "# bounds ")
	if !found {
		return false, fmt.Errorf("read scenario: no line has its bounds")
	}
	text, steps, _ := strings.Cut(text, "\n")
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		return false, fmt.Errorf("read bounds of scenario: %w", err)
	}
	return newModel(b).space(new([oracle.Excuses]int64)).Replay(strings.NewReader(steps), out)
}
