package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// gatedNode registers a Node that stays behind the gate, since its record cannot be read.
func gatedNode(t *testing.T, name string) {
	t.Helper()
	register(t, name)
	edit(t, name, map[string]string{"dedicated": "ci"})
	remove(t, name)
	spoil(t, name)
	received(t, name)
	register(t, name)
	require.True(t, gateOn(t, name))
}

// received waits until the webhook knows that a record cannot be read: a registration keeps the gate then.
func received(t *testing.T, name string) {
	t.Helper()
	harness.Eventually(t, func() bool {
		out, err := nodekeep.Kubectl(t.Context(), "create", "--dry-run=server", "-o", "jsonpath={.spec.taints[*].key}", "-f", nodeFile(t, name))
		return err == nil && containsGate(out)
	}, settles, 50*time.Millisecond)
}

func gateOn(t *testing.T, name string) bool {
	t.Helper()
	return policy.DefaultGate.Present(nodekeep.Node(t, name).Spec.Taints)
}

func TestGateListSaysWhyNodesWaitAndWhatToDo(t *testing.T) {
	gatedNode(t, "gate-spoiled")
	quarantined(t, "gate-undecided")
	received(t, "gate-undecided")
	register(t, "gate-undecided")

	register(t, "gate-protected")
	edit(t, "gate-protected", map[string]string{worker: ""})
	remove(t, "gate-protected")
	nodekeep.WithoutCapture(t, func() {
		register(t, "gate-protected")
		nodekeep.MustKubectl(t, "-n", harness.Namespace, "patch", "lease", "nodekeep-capture", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().Add(-time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z")))
		list := run(t, "list", "--waiting", "gate").RequireDone(t)
		requireGolden(t, "list-gated", list.Out)

		var found struct {
			Kind  string
			Items []struct {
				Name    string
				Missing map[string]string
			}
		}
		answerJSON(t, &found, "list", "--waiting", "gate")
		assert.Equal(t, "GatedNodeList", found.Kind)
		require.Len(t, found.Items, 3)
		assert.Equal(t, map[string]string{worker: ""}, found.Items[0].Missing)
		assert.Equal(t, map[string]string{"rack": "r1", "dedicated": "ci", "tenant:NoSchedule": "blue"}, found.Items[2].Missing)
		assert.Equal(t, "node/gate-protected\nnode/gate-spoiled\nnode/gate-undecided\n", run(t, "list", "--waiting", "gate", "-o", "name").RequireDone(t).Out)

		for name, missing := range map[string]string{"gate-protected": worker, "gate-undecided": "tenant:NoSchedule"} {
			diff := run(t, "show", name, "--diff")
			assert.Equal(t, 1, diff.Code, name)
			assert.Contains(t, diff.Out, missing, name)
		}
		const behind = "(gated-nodes): node/gate-protected:"
		assert.Contains(t, run(t, "doctor", "--gate-after", "0s").Out, behind)

		a := answering(t, "\n", "release", "gate-protected", "--from", "gate")
		assert.Equal(t, 3, a.Code)
		assert.True(t, gateOn(t, "gate-protected"))
		requireGolden(t, "release-gate", a.ErrOut)
		assert.Equal(t, "node/gate-protected: gate lifted\n", run(t, "release", "gate-protected", "--from", "gate", "--yes").RequireDone(t).Out)
		assert.False(t, gateOn(t, "gate-protected"))
		assert.NotContains(t, run(t, "doctor", "--gate-after", "0s").Out, behind)
	})
	harness.Eventually(t, func() bool { _, ok := labelsOf(t, "gate-protected")[worker]; return ok }, settles, 50*time.Millisecond,
		"capture goes on to restore what is missing")

	for _, name := range []string{"gate-spoiled", "gate-undecided"} {
		run(t, "release", name, "--from", "gate", "--yes").RequireDone(t)
		assert.False(t, gateOn(t, name))
	}
	assert.NotNil(t, recordOf(t, "gate-undecided").Quarantined, "that is still to be decided")
	assert.Equal(t, "node/gate-spoiled is not behind the gate\n", run(t, "release", "gate-spoiled", "--from", "gate").RequireDone(t).Out)
}
