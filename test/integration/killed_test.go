package integration

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

func whatHappenedWhileCaptureWasDownIsMadeGood(t *testing.T) {
	nodekeep.Register(t, "rules-down-1")
	nodekeep.Register(t, "rules-down-2")
	nodekeep.Register(t, "rules-down-3")
	nodekeep.Label(t, "rules-down-2", map[string]any{"dedicated": "ci"})
	nodekeep.Label(t, "rules-down-3", map[string]any{"dedicated": "ci"})
	comesToCarry(t, "rules-down-2", "dedicated=ci:NoSchedule")
	comesToCarry(t, "rules-down-3", "dedicated=ci:NoSchedule")
	nodekeep.WithoutCapture(t, func() {
		nodekeep.Label(t, "rules-down-1", map[string]any{"dedicated": "ci"})
		nodekeep.Label(t, "rules-down-2", map[string]any{"dedicated": nil})
		nodekeep.Label(t, "rules-down-3", map[string]any{"dedicated": "gpu"})
		assert.Empty(t, harness.TaintsOf(nodekeep.Node(t, "rules-down-1")))
		assert.Equal(t, []string{"dedicated=ci:NoSchedule"}, harness.TaintsOf(nodekeep.Node(t, "rules-down-2")))
	})
	comesToCarry(t, "rules-down-1", "dedicated=ci:NoSchedule")
	comesToCarry(t, "rules-down-2")
	comesToCarry(t, "rules-down-3", "dedicated=gpu:NoSchedule")
}

func captureKilledAtAnyMomentConvergesAfterItsStart(t *testing.T) {
	const kills = 12
	names := make([]string, 20)
	for n := range names {
		names[n] = fmt.Sprintf("rules-killed-%02d", n)
	}
	captureArgs := nodekeep.CaptureArgs
	nodekeep.WithoutCapture(t, func() { // a killed leader's Lease would have to run out each time
		nodekeep.CaptureArgs = append(slices.Clone(captureArgs), "--leader-elect=false")
	})
	defer nodekeep.WithoutCapture(t, func() { nodekeep.CaptureArgs = captureArgs })
	for _, name := range names {
		nodekeep.Register(t, name)
		nodekeep.Taint(t, name, "admins=1:NoSchedule")
	}
	seen := nodekeep.WatchNodes(t)
	between := 0 // Nodes that the kill left with a label and without its taint, or the other way round
	for n := range kills {
		value, want := any(fmt.Sprintf("v%d", n)), []string{"admins=1:NoSchedule", fmt.Sprintf("dedicated=v%d:NoSchedule", n)}
		if n%3 == 2 {
			value, want = nil, []string{"admins=1:NoSchedule"}
		}
		var all sync.WaitGroup
		all.Go(func() {
			eachNode(names, func(name string) { nodekeep.Label(t, name, map[string]any{"dedicated": value}) })
		})
		require.Eventually(t, func() bool { // the kill comes when some have changed, sooner or later
			done := 0
			for _, name := range names {
				if states := seen.Of(name); len(states) > 0 && slices.Equal(harness.TaintsOf(states[len(states)-1].Node), want) {
					done++
				}
			}
			return done >= n*len(names)/kills
		}, settles, time.Millisecond)
		require.NoError(t, nodekeep.Cluster.Process("nodekeep-capture").Kill())
		all.Wait()
		for _, name := range names {
			if !slices.Equal(harness.TaintsOf(nodekeep.Node(t, name)), want) {
				between++
			}
		}
		require.NoError(t, nodekeep.StartCapture(t.Context()))
		for _, name := range names {
			comesToCarry(t, name, want...)
		}
	}
	t.Logf("capture was killed %d times while %d Nodes changed; it left %d of %d changes half done, and all came right", kills, len(names), between, kills*len(names))
	for _, name := range names {
		require.Eventually(t, func() bool { return len(ruleTaintsOf(t, name)) == 0 }, settles, 10*time.Millisecond, name)
	}
}
