package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"

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
