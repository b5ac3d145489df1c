package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// awaited is the condition that a Node waits for, and waitForIt the policy that says so. No worker Pod runs.
const (
	awaited   = "example.com/NetworkReady"
	waitForIt = `apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  verify:
    profiles:
    - name: all
      wait: {conditions: {` + awaited + `: "True"}}
`
)

// readiness measures new Nodes that wait for a condition. All kubelets register at once, then all Nodes report the condition
// at once. That is what a node readiness controller does with a rule: nodekeep taints in the CREATE, so only the taint's
// removal is a write.
func (b *bench) readiness(ctx context.Context) {
	controller := b.StartVerify(ctx, "verify", waitForIt)
	capture := b.StartCapture(ctx, "")
	webhook := b.StartWebhook(ctx)
	b.Install(ctx)
	nodes := bed.Names("new", b.nodes)
	b.phase("%d Nodes register", len(nodes))
	before := b.CreateParts(ctx)
	registered := b.Load(ctx, nodes, atOnceInStorm, b.registerClosed)
	parts := b.CreateParts(ctx).Since(before)
	recorded, _ := spent(func() { b.settled(ctx, capture) })
	for _, p := range []*bed.Program{webhook, capture, controller} {
		b.remember(p, fmt.Sprintf("after %d registrations", len(nodes)))
	}
	b.Load(ctx, nodes, atOnceInStorm, b.FindReady)
	opened, took := b.open(ctx, nodes)
	for _, p := range []*bed.Program{webhook, capture, controller} {
		b.remember(p, fmt.Sprintf("after %d Nodes have opened", len(nodes)))
	}
	table := b.table(fmt.Sprintf("%d new Nodes wait for a condition, %d kubelets at once", len(nodes), atOnceInStorm),
		"what", "until all are done", "failed open", "a second", "average", "p50", "p90", "p99", "longest")
	row := func(name string, took time.Duration, failedOpen any, times measure.Times) {
		table.Row(name, measure.Seconds(took), failedOpen, fmt.Sprintf("%.0f", measure.Rate(len(nodes), took)),
			measure.Milliseconds(times.Mean()), times.Milliseconds(0.5, 0.9, 0.99, 1))
	}
	row("the CREATE, after which the Node has its taint", registered.Took, b.CallsFailedOpen(ctx), registered.Times)
	row("from the condition's PATCH until a watch brings the Node without its taint", took, "", opened)
	table.Flush()
	b.phase("every record was current %s after the last registration", measure.Seconds(max(0, recorded-settledLooks*settlePoll)))
	b.printParts(parts)
	b.memory.Flush()
}

// registerClosed registers a Node, which must be closed from the start: by its taint, or by the gate if the API server gave the webhook up.
func (b *bench) registerClosed(ctx context.Context, name string) error {
	node, err := b.Register(ctx, name)
	switch {
	case err != nil:
		return err
	case answered(node) && !unverified(node):
		return fmt.Errorf("node %q registered without %s, though nodekeep has answered", name, bed.Unverified.Key)
	case !closed(node):
		return fmt.Errorf("node %q registered without a taint", name)
	}
	return nil
}

// answered reports whether nodekeep has answered the CREATE of a Node.
func answered(node *corev1.Node) bool { return node.Annotations[policy.StampAnnotation] != "" }

func unverified(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return bed.Unverified.MatchTaint(&taint) })
}

// closed reports whether a Node has the taint of verification or the gate.
func closed(node *corev1.Node) bool {
	return policy.DefaultGate.Present(node.Spec.Taints) || unverified(node)
}

// open has each Node report the condition. It returns how long each then took to open, and how long it took from the
// first report until all were open.
func (b *bench) open(ctx context.Context, nodes []string) (times measure.Times, took time.Duration) {
	b.phase("%d Nodes report the condition", len(nodes))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	asked := map[string]time.Time{}
	all := make(chan struct{})
	ended := b.WatchNodes(ctx, func(node *corev1.Node) {
		mu.Lock()
		defer mu.Unlock()
		began, waits := asked[node.Name]
		if !waits || began.IsZero() || closed(node) {
			return
		}
		times = append(times, time.Since(began))
		asked[node.Name] = time.Time{}
		if len(times) == len(nodes) {
			close(all)
		}
	})
	took, _ = spent(func() {
		b.Load(ctx, nodes, atOnceInStorm, func(ctx context.Context, name string) error {
			mu.Lock()
			asked[name] = time.Now()
			mu.Unlock()
			return b.Report(ctx, name, awaited)
		})
		select {
		case <-all:
		case err := <-ended:
			require.NoError(b, err)
		case <-time.After(patience):
			mu.Lock()
			defer mu.Unlock()
			require.Len(b, times, len(nodes), "Nodes that have opened")
		}
	})
	return times, took
}
