package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

func TestTaintsOfEveryEffectAreInTheVeryObjectThatTheKubeletsCreateReturns(t *testing.T) {
	const name = "kept-1"
	first := nodekeep.Register(t, name)
	texts := []string{"maintenance=disk:NoExecute", "maintenance=disk:NoSchedule", "example.com/soft:PreferNoSchedule", "dedicated=ci:NoSchedule"}
	nodekeep.ChangeTaints(t, name, func(taints []corev1.Taint) []corev1.Taint {
		for _, text := range texts {
			added := harness.TaintOf(text)
			added.TimeAdded = &metav1.Time{Time: time.Now().Add(-time.Hour)}
			taints = append(taints, added)
		}
		return taints
	})
	want := map[string]string{"maintenance:NoExecute": "disk", "maintenance:NoSchedule": "disk", "example.com/soft:PreferNoSchedule": "", "dedicated:NoSchedule": "ci"}
	nodekeep.WaitRecorded(t, first, want)
	assert.NotContains(t, nodekeep.RecordMap(t, name).Data["record.json"], "timeAdded")
	for range 2 { // a restored taint is recorded like one that an admin added
		nodekeep.DeleteNode(t, name)
		returned := nodekeep.Register(t, name)
		for _, text := range texts {
			assert.True(t, harness.Carries(returned, text), "%s in %v", text, harness.TaintsOf(returned))
		}
		for _, taint := range returned.Spec.Taints {
			assert.Nil(t, taint.TimeAdded, taint.Key)
		}
		assert.False(t, policy.DefaultGate.Present(returned.Spec.Taints), "nothing is left to restore")
		nodekeep.WaitRecorded(t, returned, want)
		staysAs(t, returned)
	}
	nodekeep.WaitEvent(t, name, "LabelsRestored")
}

func TestTheKubeletsOwnTaintWinsOverTheRememberedOne(t *testing.T) {
	const name = "kept-own-1"
	node := nodekeep.Register(t, name)
	nodekeep.Taint(t, name, "maintenance=disk:NoExecute", "example.com/other=1:NoSchedule")
	nodekeep.WaitRecorded(t, node, map[string]string{"maintenance:NoExecute": "disk", "example.com/other:NoSchedule": "1"})
	nodekeep.DeleteNode(t, name)
	returned := nodekeep.RegisterNode(t, tainted(name, "maintenance=network:NoExecute", "maintenance=network:NoSchedule"))
	want := []string{"example.com/other=1:NoSchedule", "maintenance=network:NoExecute", "maintenance=network:NoSchedule"}
	assert.Equal(t, want, harness.TaintsOf(returned), "one taint of a key and effect, and that is the Node's own")
	nodekeep.WaitRecorded(t, returned, map[string]string{ // the value that lost is not forgotten
		"maintenance:NoExecute": "disk", "maintenance:NoSchedule": "network", "example.com/other:NoSchedule": "1",
	})
	assert.Equal(t, want, harness.TaintsOf(nodekeep.Node(t, name)))
}

func TestTheRememberedTaintReplacesTheKubeletsWhereThePolicySaysSo(t *testing.T) {
	const name = "kept-own-2"
	node := nodekeep.Register(t, name)
	nodekeep.Taint(t, name, "maintenance=disk:NoExecute")
	nodekeep.WaitRecorded(t, node, map[string]string{"maintenance:NoExecute": "disk"})
	withPolicy(t, "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec:\n  labels: {onConflict: restoreStored}\n", func() {
		nodekeep.DeleteNode(t, name)
		returned := nodekeep.RegisterNode(t, tainted(name, "first=1:NoSchedule", "maintenance=network:NoExecute", "last=1:NoSchedule"))
		want := []string{"first=1:NoSchedule", "last=1:NoSchedule", "maintenance=disk:NoExecute"}
		assert.Equal(t, want, harness.TaintsOf(returned))
		nodekeep.WaitRecorded(t, returned, map[string]string{"maintenance:NoExecute": "disk", "first:NoSchedule": "1", "last:NoSchedule": "1"})
		assert.Equal(t, want, harness.TaintsOf(nodekeep.Node(t, name)))
	})
}

func TestARemovedTaintStaysRemovedAfterReRegistration(t *testing.T) {
	const name = "kept-off-1"
	node := nodekeep.Register(t, name)
	nodekeep.Taint(t, name, "a=1:NoSchedule", "b=1:NoExecute", "c=1:NoSchedule")
	nodekeep.WaitRecorded(t, node, map[string]string{"a:NoSchedule": "1", "b:NoExecute": "1", "c:NoSchedule": "1"})
	nodekeep.Untaint(t, name, "a=1:NoSchedule")
	nodekeep.WaitRecorded(t, node, map[string]string{"b:NoExecute": "1", "c:NoSchedule": "1"})
	nodekeep.DeleteNode(t, name)
	nodekeep.Register(t, name)
	comesToCarry(t, name, "b=1:NoExecute", "c=1:NoSchedule") // in the CREATE, unless the webhook is a moment behind

	nodekeep.WithoutCapture(t, func() { // a restored one too, while nobody looks
		nodekeep.DeleteNode(t, name)
		assert.Equal(t, []string{"b=1:NoExecute", "c=1:NoSchedule"}, harness.TaintsOf(nodekeep.Register(t, name)))
		nodekeep.Untaint(t, name, "b=1:NoExecute")
		nodekeep.Taint(t, name, "c=2:NoSchedule")
	})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"c:NoSchedule": "2"})
	assert.Equal(t, []string{"c=2:NoSchedule"}, harness.TaintsOf(nodekeep.Node(t, name)))
	nodekeep.DeleteNode(t, name)
	nodekeep.Register(t, name)
	comesToCarry(t, name, "c=2:NoSchedule")
}
