package main

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/test/bench/bed"
)

// settings are the flags. Their defaults are the sizes of README.md.
type settings struct {
	rounds   int
	count    int
	parallel []int

	nodes    int
	period   time.Duration
	changes  int
	kubelets int
	storm    int
	restarts int
	images   int

	builds []build
	parts  []string
	repeat int
	beats  int
}

func readSettings(program string, args []string) (s settings, err error) {
	flags := flag.NewFlagSet(program, flag.ContinueOnError)
	flags.IntVar(&s.rounds, "rounds", 12, "rounds in which all variants are measured in turn, after one that does not count")
	flags.IntVar(&s.count, "count", 80, "Nodes for each variant, round and number of kubelets at once")
	s.parallel = []int{1, 8, 32}
	flags.Func("parallel", "kubelets at once, comma-separated (default 1,8,32); create, guards and governance (the first number) only", func(value string) (err error) {
		s.parallel, err = numbers(value)
		return err
	})
	flags.IntVar(&s.nodes, "nodes", 100_000, "Nodes or records at the largest size; growth, list, readiness, scale, verify and compare")
	flags.DurationVar(&s.period, "period", time.Minute, "how long label changes, heartbeats and idleness are each looked at; scale only")
	flags.IntVar(&s.changes, "changes", 200, "label changes a second; scale only")
	flags.IntVar(&s.kubelets, "kubelets", 10_000, "kubelets whose heartbeats there are; scale only")
	flags.IntVar(&s.beats, "heartbeats", 0, "heartbeats a second; 0: one each 5 minutes of each Node; verify only")
	flags.IntVar(&s.storm, "storm", 20_000, "Nodes that register again at once, a fifth of -nodes at most; scale only")
	flags.IntVar(&s.restarts, "restarts", 100_000, "restarts of kubelets, over the Nodes again and again; scale only")
	flags.IntVar(&s.images, "images", bed.AllImages, "images of each Node; fewer make Nodes smaller, and what the control plane does with them cheaper")
	flags.Func("binary", "`NAME=PATH[,MANIFESTS]`: a build of nodekeep, and the folder of its manifests where they are not those of this tree; repeated; compare only, which measures this tree without any", s.addBuild)
	s.parts = partNames()
	flags.Func("parts", "what to compare, comma-separated (default "+strings.Join(s.parts, ",")+"); compare only", func(value string) (err error) {
		s.parts, err = readParts(value)
		return err
	})
	flags.IntVar(&s.repeat, "repeat", 3, "how often captures are killed, and processes started for their memory; compare only")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("read flags: unexpected argument %q", flags.Arg(0))
	}
	if s.rounds < 1 || s.count < 1 || s.nodes < smallest || s.changes < 1 || s.kubelets < 1 || s.storm < 1 || s.restarts < 1 || s.repeat < 1 || s.period < time.Second {
		return s, fmt.Errorf("read flags: every number must be at least 1, -nodes at least %d, -period at least 1s", smallest)
	}
	if s.images < 0 || s.images > bed.AllImages {
		return s, fmt.Errorf("read flags: -images must be between 0 and %d", bed.AllImages)
	}
	if program == "compare" && len(s.builds) == 0 {
		s.builds = []build{{name: "this tree"}}
	}
	s.storm = min(s.storm, s.nodes/5)
	return s, nil
}

func numbers(list string) (all []int, err error) {
	for word := range strings.SplitSeq(list, ",") {
		number, err := strconv.Atoi(word)
		if err != nil || number < 1 {
			return nil, fmt.Errorf("%q is no number above 0", word)
		}
		all = append(all, number)
	}
	return all, nil
}
