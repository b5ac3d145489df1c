package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
	"nodekeep.dev/nodekeep/test/harness"
)

// takenOver is how long a failover took.
type takenOver struct {
	recorded measure.Times // until a label changed at that moment was in its record
	lifted   measure.Times // until a Node that registered at that moment had its deferred label and no gate
}

// compareFailover takes the leader away, in turn on each side.
func (b *bench) compareFailover(ctx context.Context, sides []*side) {
	ways := []struct {
		name   string
		signal syscall.Signal
	}{{"is killed", syscall.SIGKILL}, {"is stopped", syscall.SIGTERM}}
	found := map[string]*takenOver{}
	inTurns(sides, 0, func(s *side) { s.start(ctx) })
	for turn := range b.repeat {
		for _, way := range ways {
			inTurns(sides, turn, func(s *side) {
				b.phase("failover %d of %d of %s: the leader %s", turn+1, b.repeat, s.name, way.name)
				key := way.name + s.name
				if found[key] == nil {
					found[key] = &takenOver{}
				}
				s.failover(ctx, way.signal, fmt.Sprintf("failover-%d-%d", turn, way.signal), found[key])
			})
		}
	}
	table := b.table("Failover of capture, with a standby that is ready", "the leader", "build",
		"a label changed at that moment is recorded after", "a Node that registered at that moment has its deferred label and no gate after")
	for _, way := range ways {
		for _, s := range sides {
			times := found[way.name+s.name]
			table.Row(way.name, s.name, sorted(times.recorded), sorted(times.lifted))
		}
	}
	table.Flush()
	inTurns(sides, 0, (*side).stop)
}

// sorted lists times.
func sorted(times measure.Times) string {
	var words []string
	for _, t := range slices.Sorted(slices.Values(times)) {
		words = append(words, fmt.Sprintf("%.2f", t.Seconds()))
	}
	return strings.Join(words, ", ") + " s"
}

// failover starts a leader and a standby, and takes the leader away.
func (s *side) failover(ctx context.Context, signal syscall.Signal, name string, times *takenOver) {
	leader := s.startLeader(ctx)
	labeled, gated := name+"-labeled", name+"-gated"
	for _, node := range []string{labeled, gated} {
		require.NoError(s, register(ctx, s, node))
		require.NoError(s, s.Label(ctx, node, protectedLabel, ""))
	}
	s.forEach(ctx, []string{labeled, gated}, recorded(protectedLabel))
	require.NoError(s, s.DeleteNode(ctx, gated))
	standby := s.StartCapture(ctx, "-standby")
	time.Sleep(quiet) // nothing is left to do for the leader
	began := time.Now()
	ended := make(chan error, 1)
	if signal == syscall.SIGKILL {
		ended <- leader.Kill() // a change that it still sees does not count
	} else {
		go func() { ended <- leader.Process.Stop() }()
	}
	const value = "during-failover"
	require.NoError(s, s.Label(ctx, labeled, changedLabel, value))
	require.NoError(s, register(ctx, s, gated))
	var toRecord, toLift time.Duration
	s.Wait(ctx, patience, bed.Look, "the standby has taken over", func(ctx context.Context) (bool, error) {
		if toRecord == 0 && recorded(value)(ctx, s, labeled) {
			toRecord = time.Since(began)
		}
		if toLift == 0 && s.lifted(ctx, gated) {
			toLift = time.Since(began)
		}
		return toRecord > 0 && toLift > 0, nil
	})
	require.NoError(s, <-ended)
	times.recorded, times.lifted = append(times.recorded, toRecord), append(times.lifted, toLift)
	standby.Stop()
}

// startLeader starts a capture and returns when it holds the Lease, which a capture that was killed may still hold.
func (s *side) startLeader(ctx context.Context) *bed.Program {
	head := s.LeaseHolder(ctx)
	leader := s.StartCapture(ctx, "")
	s.Wait(ctx, patience, bed.Look, "capture leads", func(ctx context.Context) (bool, error) {
		holder := s.LeaseHolder(ctx)
		return holder != "" && holder != head, nil
	})
	return leader
}

// lifted reports whether a Node has its deferred label and no gate.
func (s *side) lifted(ctx context.Context, name string) bool {
	node, err := s.Admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	require.NoError(s, err)
	_, given := node.Labels[protectedLabel]
	return given && !harness.Gated(node)
}
