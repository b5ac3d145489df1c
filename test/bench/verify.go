package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// waitForever is a policy whose Nodes are never checked, because a condition that the profile waits for is missing. This leaves only the controller's
// memory, and its cost of heartbeats.
const waitForever = `apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  verify:
    profiles:
    - name: all
      wait: {conditions: {example.com/NeverThere: "True"}}
      checks: [{name: api, api: {}}]
`

// verify measures the controller of verification, first on open Nodes, then on Nodes of which some wait for verification.
func (b *bench) verify(ctx context.Context) {
	nodes := b.population(ctx)
	controller := b.StartVerify(ctx, "verify", waitForever)
	b.started("verify", fmt.Sprintf("%d Nodes", b.nodes), controller)
	b.remember(controller, fmt.Sprintf("has read %d Nodes, all open", b.nodes))
	b.rest(ctx, controller, "half a minute later")
	single := b.StartVerify(ctx, "verify-one-thread", waitForever, "GOMAXPROCS=1")
	informer := b.StartInformer()
	rate := cmp.Or(b.beats, max(1, int(float64(b.nodes)/reportEvery.Seconds())))
	table := b.table(fmt.Sprintf("Heartbeats of %d kubelets: %d a second for %s. CPU of three processes at the same time, and of one CPU", b.nodes, rate, b.period),
		"", "the controller", "", "the controller with GOMAXPROCS=1", "", "an informer that does nothing", "")
	row := func(name string, fn func()) {
		b.phase("%s for %s", name, b.period)
		took, cpu := spent(fn, controller.CPU, single.CPU, func() time.Duration { return b.CPUOf(informer) })
		var cells []any
		for _, used := range cpu {
			cells = append(cells, measure.Milliseconds(used), share(used, took))
		}
		table.Row(name, cells)
	}
	beat := func() {
		b.pace(ctx, rate*int(b.period/time.Second), rate, func(ctx context.Context, number int) error {
			return b.Heartbeat(ctx, nodes[number%len(nodes)])
		})
	}
	row("nothing happens, all Nodes open", func() { b.sleep(ctx, b.period) })
	row("heartbeats, all Nodes open", beat)
	b.phase("have %d Nodes verified", b.storm)
	b.Load(ctx, nodes[:b.storm], 32, func(ctx context.Context, name string) error { return b.Taint(ctx, name, bed.Unverified) })
	b.rest(ctx, controller, fmt.Sprintf("%d Nodes wait for their checks", b.storm))
	row(fmt.Sprintf("heartbeats, %d Nodes wait", b.storm), beat)
	table.Flush()
	b.memory.Flush()
}
