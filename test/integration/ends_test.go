package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
	"nodekeep.dev/nodekeep/test/harness"
)

const outOfBalancers = corev1.LabelNodeExcludeBalancers

// changeAs changes a Node as a client whose field manager has that name.
func changeAs(t *testing.T, name, manager string, change map[string]any) *corev1.Node {
	t.Helper()
	node, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, harness.MustJSON(t, change), metav1.PatchOptions{FieldManager: manager})
	require.NoError(t, err)
	return node
}

func withLabels(labels map[string]any) map[string]any {
	return map[string]any{"metadata": map[string]any{"labels": labels}}
}

// Drainers and clouds mark a Node right before its end. The next machine of that name must take workloads and traffic.
func TestTheNextMachineInheritsNoMarkOfTheEndAndAllThatOperatorsSet(t *testing.T) {
	tainted := func(t *testing.T, name, manager string, taints ...string) {
		t.Helper()
		list := nodekeep.Node(t, name).Spec.Taints
		for _, taint := range taints {
			list = append(list, harness.TaintOf(taint))
		}
		changeAs(t, name, manager, map[string]any{"spec": map[string]any{"taints": list}})
	}
	for name, c := range map[string]struct {
		end   func(t *testing.T, name string)
		marks []string // labels and taints that the next machine must not have
		noted string   // who the history says has marked the Node
	}{
		"taken out of load balancers by a drainer": {func(t *testing.T, name string) {
			t.Helper()
			changeAs(t, name, "aws-eks-asg-rolling-update-handler", withLabels(map[string]any{outOfBalancers: "true"}))
		}, []string{outOfBalancers}, ""},
		"taken out of load balancers by a drainer that calls kubectl": {func(t *testing.T, name string) {
			t.Helper()
			changeAs(t, name, "kubectl-label", withLabels(map[string]any{outOfBalancers: "lifecycle-manager"}))
		}, []string{outOfBalancers}, ""},
		"cordoned, then marked by a drainer of their own": {func(t *testing.T, name string) {
			t.Helper()
			changeAs(t, name, "kubectl-cordon", map[string]any{"spec": map[string]any{"unschedulable": true}})
			changeAs(t, name, "drainer", withLabels(map[string]any{"example.com/ends": "soon", "rack": "none"}))
			tainted(t, name, "drainer", "example.com/ends:NoSchedule")
		}, []string{"example.com/ends", "example.com/ends:NoSchedule"}, "end:drainer"},
		"deleted by Karpenter, which marks it while its finalizer is on": {func(t *testing.T, name string) {
			t.Helper()
			changeAs(t, name, "karpenter", map[string]any{"metadata": map[string]any{"finalizers": []string{"karpenter.sh/termination"}}})
			require.NoError(t, nodekeep.Admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
			changeAs(t, name, "karpenter", withLabels(map[string]any{outOfBalancers: "karpenter", "example.com/last": "words"}))
			tainted(t, name, "karpenter", "karpenter.sh/disrupted:NoSchedule")
		}, []string{outOfBalancers, "example.com/last", "karpenter.sh/disrupted:NoSchedule"}, "end:karpenter"},
		"given up by an autoscaler, and marked by an agent": {func(t *testing.T, name string) {
			t.Helper()
			tainted(t, name, "cluster-autoscaler", "ToBeDeletedByClusterAutoscaler=1700000000:NoSchedule")
			changeAs(t, name, "agent", withLabels(map[string]any{"example.com/flushed": "true"}))
		}, []string{"example.com/flushed", "ToBeDeletedByClusterAutoscaler:NoSchedule"}, "end:agent"},
		"warned of its end by a cloud": {func(t *testing.T, name string) {
			t.Helper()
			tainted(t, name, "node-termination-handler", "cloud.google.com/impending-node-termination:NoSchedule", "aws-node-termination-handler/spot-itn:NoSchedule", "example.com/preempt:NoSchedule", "remediator.example.com/x:NoSchedule")
		}, []string{"cloud.google.com/impending-node-termination:NoSchedule", "aws-node-termination-handler/spot-itn:NoSchedule", "example.com/preempt:NoSchedule", "remediator.example.com/x:NoSchedule"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			node := "ends-" + map[bool]string{true: "a", false: "b"}[len(name) > 40] + string(rune('a'+len(name)%26))
			nodekeep.RegisterRecorded(t, node, map[string]string{"rack": "r1", "example.com/agent": "1"})
			c.end(t, node)
			changeAs(t, node, "kubectl-label", withLabels(map[string]any{"example.com/ticket": "4711"})) // an operator counts at any time
			tainted(t, node, "kubectl-taint", "example.com/repair:NoSchedule")
			kept := map[string]string{"example.com/ticket": "4711", "example.com/repair:NoSchedule": "", "example.com/agent": "1", "rack": "r1"}
			recordComes(t, node, func(r record.Record) bool { return harness.HasAll(r.Items(), kept) })
			if c.noted != "" {
				recordComes(t, node, func(r record.Record) bool {
					return slices.ContainsFunc(history.Changes(r), func(change history.Change) bool { return change.Actor == c.noted })
				})
			}
			if live := nodekeep.Node(t, node); live.DeletionTimestamp != nil {
				changeAs(t, node, "karpenter", map[string]any{"metadata": map[string]any{"finalizers": nil}})
			} else {
				nodekeep.DeleteNode(t, node)
			}
			next := harness.Registration(node)
			next.Spec.ProviderID, next.Status.NodeInfo.SystemUUID, next.Status.NodeInfo.MachineID = "aws:///a/another", "another", "another"
			require.Eventually(t, func() bool {
				_, err := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
				return err != nil
			}, harness.Settles, 10*time.Millisecond)
			nodekeep.RegisterNode(t, next)
			returned := nodekeep.WaitRestored(t, node, nil)
			items := record.Join(returned.Labels, returned.Spec.Taints)
			for _, mark := range c.marks {
				assert.NotContains(t, items, mark)
			}
			assert.True(t, harness.HasAll(items, kept), "%v", items)
		})
	}
}

func TestANodeThatStaysAfterItsCordonKeepsWhatWasSetMeanwhile(t *testing.T) {
	const name = "ends-not"
	nodekeep.RegisterRecorded(t, name, map[string]string{"rack": "r1"})
	changeAs(t, name, "kubectl-cordon", map[string]any{"spec": map[string]any{"unschedulable": true}})
	changeAs(t, name, "in-house", withLabels(map[string]any{"example.com/firmware": "7"}))
	recordComes(t, name, func(r record.Record) bool {
		return slices.ContainsFunc(history.Changes(r), func(change history.Change) bool { return change.Actor == "end:in-house" })
	})
	changeAs(t, name, "kubectl-uncordon", map[string]any{"spec": map[string]any{"unschedulable": nil}})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"example.com/firmware": "7", "rack": "r1"})
}

// A taint of the start is brought by each kubelet and removed by a controller each time. A machine that dies in between says nothing else.
func TestATaintThatBelongsToTheStartIsNotRestored(t *testing.T) {
	const name, start = "starts", "node.gardener.cloud/critical-components-not-ready:NoSchedule"
	node := nodekeep.RegisterNode(t, tainted(name, start))
	nodekeep.WaitRecorded(t, node, map[string]string{start: ""}) // nothing is known of it yet
	changeAs(t, name, "gardener-resource-manager", map[string]any{"spec": map[string]any{"taints": nil}})
	recordComes(t, name, func(r record.Record) bool { e, known := r.Entry(start); return known && e.Removed })

	nodekeep.DeleteNode(t, name)
	nodekeep.RegisterNode(t, tainted(name, start))
	nodekeep.Label(t, name, map[string]any{"rack": "r1"})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"rack": "r1"})
	nodekeep.DeleteNode(t, name)
	assert.False(t, harness.Carries(nodekeep.Register(t, name), start), "a kubelet that does not bring it needs no controller that removes it")
}
