package main

import (
	"fmt"
	"slices"
	"time"

	"nodekeep.dev/nodekeep/test/bench/measure"
)

// cell is one round of a variant with a number of kubelets at once.
type cell struct {
	measure.Load
	cpu time.Duration // of the API server, etcd and the webhooks
}

// cells are the rounds, by variant and number of kubelets at once.
type cells map[string]map[int][]cell

func (c cells) add(variant string, atOnce int, round cell) {
	if c[variant] == nil {
		c[variant] = map[int][]cell{}
	}
	c[variant][atOnce] = append(c[variant][atOnce], round)
}

// all are the rounds of a cell taken together.
func (c cells) all(variant string, atOnce int) (all cell) {
	for _, round := range c[variant][atOnce] {
		all = all.and(round)
	}
	return all
}

// and takes two rounds together.
func (c cell) and(other cell) cell {
	return cell{Load: measure.Load{Times: slices.Concat(c.Times, other.Times), Took: c.Took + other.Took}, cpu: c.cpu + other.cpu}
}

// each is the CPU time of one CREATE.
func (c cell) each() time.Duration { return c.cpu / time.Duration(max(1, len(c.Times))) }

// timed runs a load and takes the CPU time that a process has used meanwhile.
func timed(cpu func() (time.Duration, error), run func() (measure.Load, error)) (round cell, err error) {
	before, err := cpu()
	if err != nil {
		return round, err
	}
	if round.Load, err = run(); err != nil {
		return round, err
	}
	after, err := cpu()
	round.cpu = after - before
	return round, err
}

// row are the common cells of all comparisons: p50, p99, calls a second, CPU time of a call.
func (c cell) row() []any {
	return []any{measure.Milliseconds(c.Times.Quantile(0.5)), measure.Milliseconds(c.Times.Quantile(0.99)), fmt.Sprintf("%.0f", c.Rate()), measure.Milliseconds(c.each())}
}

// against are the ratios of the p50 and of the CPU time of a call to another variant. Both are empty without another variant, or for itself.
func (c cells) against(variant, other string, atOnce int) []any {
	if other == "" || other == variant {
		return []any{"", ""}
	}
	return []any{measure.Ratio(c.ratio(variant, other, atOnce), 1), measure.Ratio(float64(c.all(variant, atOnce).each()), float64(c.all(other, atOnce).each()))}
}

// ratio is how the p50 of two variants compare, as the median of all rounds. Other load on the machine during a round affects both variants.
func (c cells) ratio(one, other string, atOnce int) float64 {
	var ratios []float64
	for round, of := range c[one][atOnce] {
		ratios = append(ratios, float64(of.Times.Quantile(0.5))/float64(c[other][atOnce][round].Times.Quantile(0.5)))
	}
	return measure.Median(ratios)
}
