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

// inTurn calls do for each variant in each round. Each round begins with another variant, so that none always comes after the same one. There is one
// more round, 0, which does not count: connections are made and memory is grown in it.
func (b *bench) inTurn(rounds, variants int, fn func(round, variant int)) {
	for round := range rounds + 1 {
		b.phase("round %d of %d", round, rounds)
		for n := range variants {
			fn(round, (n+round)%variants)
		}
	}
}

// add adds a round, if it counts.
func (c cells) add(round int, variant string, atOnce int, found cell) {
	if round == 0 {
		return
	}
	if c[variant] == nil {
		c[variant] = map[int][]cell{}
	}
	c[variant][atOnce] = append(c[variant][atOnce], found)
}

// all returns the rounds of a cell taken together.
func (c cells) all(variant string, atOnce int) (all cell) {
	for _, round := range c[variant][atOnce] {
		all.Times = slices.Concat(all.Times, round.Times)
		all.Took += round.Took
		all.cpu += round.cpu
	}
	return all
}

// perNode returns the CPU time of one call.
func (c cell) perNode() time.Duration { return c.cpu / time.Duration(max(1, len(c.Times))) }

// timed runs a load and takes the CPU time that was spent meanwhile.
func timed(cpu func() time.Duration, run func() measure.Load) (round cell) {
	_, used := spent(func() { round.Load = run() }, cpu)
	round.cpu = used[0]
	return round
}

// spent calls do. It returns how long that took, and the CPU time that each meter counted meanwhile.
func spent(fn func(), meters ...func() time.Duration) (took time.Duration, cpu []time.Duration) {
	for _, meter := range meters {
		cpu = append(cpu, -meter())
	}
	began := time.Now()
	fn()
	took = time.Since(began)
	for i, meter := range meters {
		cpu[i] += meter()
	}
	return took, cpu
}

// share returns a CPU time as a part of one CPU.
func share(cpu, took time.Duration) string {
	return fmt.Sprintf("%.1f %%", 100*cpu.Seconds()/took.Seconds())
}

// rowColumns are the titles of [cell.row].
var rowColumns = []string{"average", "p50", "p95", "p99", "a second", "CPU each"}

// row returns the common cells of all comparisons.
func (c cell) row() []any {
	return []any{measure.Milliseconds(c.Times.Mean()), c.Times.Milliseconds(0.5, 0.95, 0.99), fmt.Sprintf("%.0f", c.Rate()), measure.Milliseconds(c.perNode())}
}

// against returns the ratios of the p50 and of the CPU time of a call to another variant. Both are empty without another variant, or for itself.
func (c cells) against(variant, base string, atOnce int) []any {
	if base == "" || base == variant {
		return []any{"", ""}
	}
	return []any{measure.Ratio(c.ratio(variant, base, atOnce), 1), measure.Ratio(float64(c.all(variant, atOnce).perNode()), float64(c.all(base, atOnce).perNode()))}
}

// ratio returns how the p50 of two variants compare, as the median of all rounds. Other load on the machine during a round affects both variants.
func (c cells) ratio(variant, base string, atOnce int) float64 {
	var ratios []float64
	for round, cell := range c[variant][atOnce] {
		ratios = append(ratios, float64(cell.Times.Quantile(0.5))/float64(c[base][atOnce][round].Times.Quantile(0.5)))
	}
	return measure.Median(ratios)
}
