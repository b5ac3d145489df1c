package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// takenOver is how long a failover took.
type takenOver struct {
	recorded measure.Times // until a label changed at that moment was in its record
	lifted   measure.Times // until a Node that registered at that moment had its deferred label and no gate
}

// compareFailover takes the leader away, in turn on each side.
func (b *bench) compareFailover(ctx context.Context, sides []*side) error {
	ways := []struct {
		name   string
		signal syscall.Signal
	}{{"is killed", syscall.SIGKILL}, {"is stopped", syscall.SIGTERM}}
	found := map[string]*takenOver{}
	if err := inTurns(sides, 0, func(s *side) error { return s.up(ctx) }); err != nil {
		return err
	}
	for turn := range b.repeat {
		for _, way := range ways {
			err := inTurns(sides, turn, func(s *side) error {
				b.phase("failover %d of %d of %s: the leader %s", turn+1, b.repeat, s.name, way.name)
				key := way.name + s.name
				if found[key] == nil {
					found[key] = &takenOver{}
				}
				return s.failover(ctx, way.signal, fmt.Sprintf("failover-%d-%d", turn, way.signal), found[key])
			})
			if err != nil {
				return err
			}
		}
	}
	table := measure.NewTable(b.out, "Failover of capture, with a standby that is ready", "the leader", "build",
		"a label changed at that moment is recorded after", "a Node that registered at that moment has its deferred label and no gate after")
	for _, way := range ways {
		for _, s := range sides {
			times := found[way.name+s.name]
			table.Row(way.name, s.name, sorted(times.recorded), sorted(times.lifted))
		}
	}
	table.Flush()
	return inTurns(sides, 0, (*side).down)
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
func (s *side) failover(ctx context.Context, signal syscall.Signal, name string, times *takenOver) error {
	leader, err := s.startLeader(ctx)
	if err != nil {
		return err
	}
	labeled, gated := name+"-labeled", name+"-gated"
	for _, node := range []string{labeled, gated} {
		if _, err := s.Register(ctx, node); err != nil {
			return err
		}
		if err := s.SetLabels(ctx, node, map[string]*string{protectedLabel: ptr.To("")}); err != nil {
			return err
		}
	}
	if err := s.each(ctx, []string{labeled, gated}, recorded(protectedLabel)); err != nil {
		return err
	}
	if _, err := s.DeleteNodes(ctx, []string{gated}); err != nil {
		return err
	}
	standby, err := s.StartCapture(ctx, "-standby")
	if err != nil {
		return err
	}
	if err := sleep(ctx, quiet); err != nil { // nothing is left to do for the leader
		return err
	}
	began := time.Now()
	ended := make(chan error, 1)
	if signal == syscall.SIGKILL {
		ended <- leader.Kill() // a change that it still sees does not count
	} else {
		go func() { ended <- leader.Stop() }()
	}
	const value = "during-failover"
	if err := s.Label(ctx, labeled, changedLabel, value); err != nil {
		return err
	}
	if _, err := s.Register(ctx, gated); err != nil {
		return err
	}
	var toRecord, toLift time.Duration
	err = bed.Await(ctx, patience, bed.Look, func(ctx context.Context) (bool, error) {
		if toRecord == 0 {
			done, err := recorded(value)(ctx, s, labeled)
			if err != nil {
				return false, err
			}
			if done {
				toRecord = time.Since(began)
			}
		}
		if toLift == 0 {
			done, err := s.lifted(ctx, gated)
			if err != nil {
				return false, err
			}
			if done {
				toLift = time.Since(began)
			}
		}
		return toRecord > 0 && toLift > 0, nil
	})
	if err != nil {
		return err
	}
	if err := <-ended; err != nil {
		return err
	}
	times.recorded, times.lifted = append(times.recorded, toRecord), append(times.lifted, toLift)
	return standby.Stop()
}

// startLeader starts a capture and returns when it holds the Lease, which a capture that was killed may still hold.
func (s *side) startLeader(ctx context.Context) (*bed.Program, error) {
	before, err := s.LeaseHolder(ctx)
	if err != nil {
		return nil, err
	}
	leader, err := s.StartCapture(ctx, "")
	if err != nil {
		return nil, err
	}
	err = bed.Await(ctx, patience, bed.Look, func(ctx context.Context) (bool, error) {
		holder, err := s.LeaseHolder(ctx)
		return holder != "" && holder != before, err
	})
	if err != nil {
		return nil, fmt.Errorf("wait until capture leads: %w", err)
	}
	return leader, nil
}

// lifted reports whether a Node has its deferred label and no gate.
func (s *side) lifted(ctx context.Context, name string) (bool, error) {
	node, err := s.Admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("read node %q: %w", name, err)
	}
	_, given := node.Labels[protectedLabel]
	return given && !policy.DefaultGate.On(node.Spec.Taints), nil
}
