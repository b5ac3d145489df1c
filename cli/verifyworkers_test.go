package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/verify"
)

func TestACheckOnRequestWaitsForTheWorkerPodThatTheControllerWaitsFor(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*corev1.Pod)
		says   string
	}{
		"a worker Pod": {func(*corev1.Pod) {}, "once worker Pod check-1, of an attempt before, is deleted"},
		"one that is being deleted": {func(p *corev1.Pod) {
			p.DeletionTimestamp = &metav1.Time{}
			p.DeletionGracePeriodSeconds = new(int64(5))
		}, "once worker Pod check-1"},
		"one that stays though its deletion was forced": {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{}; p.DeletionGracePeriodSeconds = new(int64) }, "an attempt now"},
		"one on another Node":                           {func(p *corev1.Pod) { p.Spec.NodeName = "b" }, "an attempt now"},
		"a Pod that no Node owns":                       {func(p *corev1.Pod) { p.OwnerReferences = nil }, "an attempt now"},
		"a Pod of another client":                       {func(p *corev1.Pod) { p.Spec.ServiceAccountName = "default" }, "an attempt now"},
	} {
		t.Run(name, func(t *testing.T) {
			node := withTaints("a", corev1.Taint{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule})
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "check-1", Namespace: verify.Namespace, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "a", UID: node.UID}}},
				Spec:       corev1.PodSpec{NodeName: "a", ServiceAccountName: verify.Account},
			}
			row.change(pod)
			e, client, out := emergencyOn(t, []runtime.Object{node, pod}...)
			p, err := policy.Load([]byte(policytest.Manifest("verify:\n  profiles:\n  - {name: all, checks: [{name: api, api: {}}]}\n")), policy.DefaultGate)
			require.NoError(t, err)
			e.inputs.Policy = p
			plan, err := e.recheckPlan(t.Context(), verify.Namespace, "a")
			require.NoError(t, err)
			require.NoError(t, plan.apply(t.Context()))
			assert.Contains(t, out.String(), "attempts begin anew; the controller starts an attempt")
			assert.Contains(t, out.String(), row.says)
			_, err = e.nodeVerification(t.Context(), verify.Namespace, "a")
			require.NoError(t, err)
			var lists []string
			for _, action := range client.Actions() {
				if list, ok := action.(clienttesting.ListAction); ok && action.Matches("list", "pods") {
					lists = append(lists, list.GetListRestrictions().Fields.String())
				}
			}
			assert.Equal(t, []string{"spec.nodeName=a", "spec.nodeName=a"}, lists, "Pods on other Nodes are not listed")
		})
	}
}
