package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
	"nodekeep.dev/nodekeep/test/harness"
)

// waitForever is a policy whose Nodes are never checked, because a condition that the profile waits for is missing. This leaves only the controller's
// memory, and its cost of heartbeats.
const waitForever = `apiVersion: nodekeep.dev/v1alpha1
kind: Policy
verify:
  profiles:
  - name: all
    wait: {conditions: [{type: example.com/NeverThere, status: "True"}]}
    checks: [{name: api, api: {}}]
`

// verify measures the controller of verification, first on open Nodes, then on Nodes of which some wait for verification.
func (b *bench) verify(ctx context.Context) error {
	nodes := bed.Names("node", b.nodes)
	b.Images = b.images
	b.phase("make %d Nodes of %d images", len(nodes), b.images)
	load, err := b.AddNodes(ctx, nodes)
	if err != nil {
		return err
	}
	b.done("Nodes", load)
	controller, err := b.StartVerify(ctx, "verify", waitForever)
	if err != nil {
		return err
	}
	b.started("verify", fmt.Sprintf("%d Nodes", b.nodes), controller)
	if err := b.remember(controller, fmt.Sprintf("has read %d Nodes, all open", b.nodes)); err != nil {
		return err
	}
	if err := b.rest(ctx, controller, "half a minute later"); err != nil {
		return err
	}
	single, err := b.StartVerify(ctx, "verify-one-thread", waitForever, "GOMAXPROCS=1")
	if err != nil {
		return err
	}
	informer, err := b.StartInformer()
	if err != nil {
		return err
	}
	rate := b.beats
	if rate == 0 {
		rate = max(1, int(float64(b.nodes)/reportEvery.Seconds()))
	}
	table := measure.NewTable(b.out, fmt.Sprintf("Heartbeats of %d kubelets: %d a second for %s. CPU of three processes at the same time, and of one CPU", b.nodes, rate, b.period),
		"", "the controller", "", "the controller with GOMAXPROCS=1", "", "an informer that does nothing", "")
	watchers := []*harness.Process{controller.Process, single.Process, informer}
	err = b.usedBy(watchers, table, "nothing happens, all Nodes open", func() error { return sleep(ctx, b.period) })
	if err != nil {
		return err
	}
	beat := func() error {
		_, err := b.pace(ctx, rate*int(b.period/time.Second), rate, func(ctx context.Context, number int) error {
			return b.Heartbeat(ctx, nodes[number%len(nodes)])
		})
		return err
	}
	if err := b.usedBy(watchers, table, "heartbeats, all Nodes open", beat); err != nil {
		return err
	}
	b.phase("have %d Nodes verified", b.storm)
	_, err = measure.Run(ctx, nodes[:b.storm], 32, func(ctx context.Context, name string) error { return b.Taint(ctx, name, bed.Unverified) })
	if err != nil {
		return err
	}
	if err := b.rest(ctx, controller, fmt.Sprintf("%d Nodes wait for their checks", b.storm)); err != nil {
		return err
	}
	if err := b.usedBy(watchers, table, fmt.Sprintf("heartbeats, %d Nodes wait", b.storm), beat); err != nil {
		return err
	}
	table.Flush()
	b.printMemory()
	return errors.Join(controller.Stop(), single.Stop(), informer.Stop())
}

// usedBy adds a row about the CPU that processes use meanwhile.
func (b *bench) usedBy(watchers []*harness.Process, table *measure.Table, what string, do func() error) error {
	b.phase("%s for %s", what, b.period)
	used := func() (used []time.Duration, err error) {
		for _, p := range watchers {
			usage, err := measure.UsageOf(p.Pid())
			if err != nil {
				return nil, err
			}
			used = append(used, usage.CPU)
		}
		return used, nil
	}
	start, err := used()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := do(); err != nil {
		return err
	}
	took := time.Since(began)
	end, err := used()
	if err != nil {
		return err
	}
	row := []any{what}
	for i := range watchers {
		cpu := end[i] - start[i]
		row = append(row, measure.Milliseconds(cpu), fmt.Sprintf("%.1f %%", 100*cpu.Seconds()/took.Seconds()))
	}
	table.Row(row...)
	return nil
}
