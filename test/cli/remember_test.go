package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

func TestRememberRecordsWithoutCaptureWhatTheNodeShows(t *testing.T) {
	register(t, "remember-1")
	edit(t, "remember-1", map[string]string{"dedicated": "ci", "rack": "r1"})
	register(t, "remember-new")
	nodekeep.WithoutCapture(t, func() {
		nodekeep.MustKubectl(t, "label", "node", "remember-1", "dedicated=batch", "tier=gold", "rack-", "--overwrite")
		nodekeep.MustKubectl(t, "label", "node", "remember-new", "dedicated=ci")

		assert.Equal(t, "node/remember-1 remembered: 2 labels, 0 taints (new: tier; changed: dedicated; removed: rack)\n",
			run(t, "remember", "remember-1").RequireDone(t).Out)
		assert.Equal(t, map[string]string{"dedicated": "batch", "tier": "gold"}, recordOf(t, "remember-1").Items())
		assert.Equal(t, "node/remember-1 unchanged: 2 labels, 0 taints\n", run(t, "remember", "remember-1").RequireDone(t).Out)
		assert.Equal(t, "node/remember-new remembered: 1 label, 0 taints (new: dedicated)\n", run(t, "remember", "remember-new").RequireDone(t).Out)
	})
	remove(t, "remember-new")
	assert.Equal(t, map[string]string{"dedicated": "ci"}, recordOf(t, "remember-new").Items())
}

func TestRememberLosesNothingThatANewObjectOfTheNameLacks(t *testing.T) {
	register(t, "remember-again")
	edit(t, "remember-again", map[string]string{"dedicated": "ci", worker: ""})
	remove(t, "remember-again")
	nodekeep.WithoutCapture(t, func() {
		register(t, "remember-again") // a protected label waits for capture
		require.NotContains(t, labelsOf(t, "remember-again"), worker)
		nodekeep.MustKubectl(t, "label", "node", "remember-again", "rack=r1")
		run(t, "remember", "remember-again").RequireDone(t)
		assert.Equal(t, map[string]string{"dedicated": "ci", worker: "", "rack": "r1"}, recordOf(t, "remember-again").Items())
	})
	harness.Eventually(t, func() bool { _, ok := labelsOf(t, "remember-again")[worker]; return ok }, settles, settles/1000)
}

func TestRememberWritesNothingOverWhatCannotBeRead(t *testing.T) {
	register(t, "remember-spoiled")
	edit(t, "remember-spoiled", map[string]string{"dedicated": "ci"})
	spoil(t, "remember-spoiled")
	ends(t, 3, "nodekeep forget remember-spoiled deletes it", "remember", "remember-spoiled")
}
