package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

func TestForgetRemovesTheRecordOfADeletedNodeOnceTheUserSaysYes(t *testing.T) {
	register(t, "forget-gone")
	edit(t, "forget-gone", map[string]string{"dedicated": "ci"}, "tenant=blue:NoSchedule")
	remove(t, "forget-gone")

	for subject, stdin := range map[string]string{"the answer is no": "n\n", "nobody answers": "", "something else is said": "what?\n"} {
		a := answering(t, stdin, "forget", "forget-gone")
		assert.Equal(t, 3, a.Code, subject)
		assert.Empty(t, a.Out, subject)
		assert.Contains(t, a.ErrOut, "nothing was changed", subject)
		require.NotNil(t, recordOf(t, "forget-gone"), subject)
	}

	dry := run(t, "forget", "forget-gone", "--dry-run")
	require.Equal(t, 0, dry.Code, dry.ErrOut)
	assert.Regexp(t, `label +dedicated +ci +recorded`, dry.Out)
	assert.Equal(t, "Nothing was changed (dry run).\n", dry.ErrOut)
	require.NotNil(t, recordOf(t, "forget-gone"))
	ends(t, 3, "it is not recorded", "forget", "forget-gone", "unknown", "--dry-run")

	a := answering(t, "y\n", "forget", "forget-gone")
	require.Equal(t, 0, a.Code, a.ErrOut)
	assert.Equal(t, "node/forget-gone forgotten\n", a.Out)
	requireGolden(t, "forget-gone", a.ErrOut)
	assert.Nil(t, recordOf(t, "forget-gone"))

	ends(t, 3, "there is no record", "forget", "forget-gone", "--yes")
	forgotten(t, "forget-gone", "dedicated")
	register(t, "forget-gone")
	assert.NotContains(t, labelsOf(t, "forget-gone"), "dedicated", "it is forgotten")
}

// forgotten waits until the webhook knows that a label is forgotten: a registration returns with its stamp and without the
// label. What it restores before that from a deleted record would be recorded anew.
func forgotten(t *testing.T, name, key string) {
	t.Helper()
	require.Eventually(t, func() bool {
		node, err := nodekeep.Admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false
		}
		_, stamped := node.Annotations[policy.StampAnnotation]
		_, ok := node.Labels[key]
		return stamped && !ok
	}, settles, 50*time.Millisecond)
}

func TestForgetRemovesSingleKeysOfADeletedNode(t *testing.T) {
	register(t, "forget-keys")
	edit(t, "forget-keys", map[string]string{"dedicated": "ci", "rack": "r1"}, "tenant=blue:NoSchedule")
	remove(t, "forget-keys")

	a := run(t, "forget", "forget-keys", "tenant", "nobody", "dedicated", "--yes")
	assert.Equal(t, 3, a.Code)
	requireGolden(t, "forget-unknown", a.ErrOut)
	assert.Len(t, recordOf(t, "forget-keys").Items(), 3, "all errors at once, and nothing is done")

	assert.Equal(t, "node/forget-keys: dedicated, tenant:NoSchedule forgotten\n",
		run(t, "forget", "node/forget-keys", "tenant:NoSchedule", "dedicated", "--yes").RequireDone(t).Out)
	assert.Equal(t, map[string]string{"rack": "r1"}, recordOf(t, "forget-keys").Items())
	register(t, "forget-keys")
	harness.Eventually(t, func() bool { // the webhook receives it a moment later, and capture corrects what it restored till then
		present := labelsOf(t, "forget-keys")
		_, ok := present["dedicated"]
		return !ok && present["rack"] == "r1"
	}, settles, settles/1000)
}

func TestForgetRefusesWhatALiveNodeShowsAndNamesTheCommandThatTakesItOff(t *testing.T) {
	register(t, "forget-live")
	edit(t, "forget-live", map[string]string{"dedicated": "ci", "rack": "r1"}, "tenant=blue:NoSchedule")

	for name, args := range map[string][]string{"forget-live": {"forget", "forget-live", "--yes"}, "forget-live-key": {"forget", "forget-live", "rack", "--yes"}} {
		a := run(t, args...)
		assert.Equal(t, 3, a.Code)
		assert.Empty(t, a.Out)
		requireGolden(t, name, a.ErrOut)
	}
	assert.Len(t, recordOf(t, "forget-live").Items(), 3)

	nodekeep.MustKubectl(t, "label", "node", "forget-live", "rack-")
	eventually(t, "forget-live", func(r record.Record) bool { return len(r.Items()) == 2 })
}

func TestForgetRemovesWhatALiveNodeDoesNotShow(t *testing.T) {
	const name = "forget-not-shown"
	register(t, name)
	edit(t, name, map[string]string{"dedicated": "ci"})
	remove(t, name)
	registerWith(t, name, map[string]string{"dedicated": "mine"}) // the kubelet's own label wins
	eventually(t, name, func(r record.Record) bool {
		e, _ := r.Entry("dedicated")
		return r.DeletedAt.IsZero() && e.Value == "ci" && e.NotShown
	})

	a := answering(t, "y\n", "forget", name, "dedicated")
	require.Equal(t, 0, a.Code, a.ErrOut)
	requireGolden(t, name, a.ErrOut)
	assert.NotContains(t, recordOf(t, name).Items(), "dedicated")
	assert.Equal(t, "mine", labelsOf(t, name)["dedicated"])
}

func TestForgetRemovesARecordThatCannotBeReadAndTheNodeIsRecordedAnew(t *testing.T) {
	register(t, "forget-spoiled")
	edit(t, "forget-spoiled", map[string]string{"dedicated": "ci"})
	spoil(t, "forget-spoiled")

	ends(t, 3, "it can be forgotten as a whole only", "forget", "forget-spoiled", "dedicated", "--yes")
	a := run(t, "forget", "forget-spoiled", "--yes")
	require.Equal(t, 0, a.Code, a.ErrOut)
	assert.Equal(t, "node/forget-spoiled forgotten\n", a.Out)
	eventually(t, "forget-spoiled", func(r record.Record) bool { return r.Items()["dedicated"] == "ci" })
}
