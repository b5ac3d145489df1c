package integration

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record/history"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
)

const gpuWorker = "node-role.kubernetes.io/gpu-worker"

// rulesPolicy is the classification of a small mixed cluster.
const rulesPolicy = `apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  labels:
    rules:
    - name: gpu
      when: {capacity: {nvidia.com/gpu: ">=1"}}
      set: {accelerator: nvidia-gpu, gpu.count: "{capacity.nvidia.com/gpu}", node-role.kubernetes.io/gpu-worker: ""}
      trust: kubelet
    - name: dual-gpu
      when: {capacity: {nvidia.com/gpu: ">=2"}}
      set: {hardware.tier: dual-gpu}
    - name: high
      when: {any: [{names: [pgbee, "pgmac*"]}, {capacity: {cpu: ">=16", memory: ">=64Gi"}}]}
      set: {hardware.tier: high-performance, voice-pipeline: enabled}
    - name: rest
      set: {hardware.tier: standard}
  taints:
    rules:
    - {selector: accelerator=nvidia-gpu, taint: "accelerator=nvidia-gpu:NoSchedule"}
`

// longReady is since when a Node is ready on which every device plugin has registered.
func longReady() metav1.Time { return metav1.NewTime(time.Now().Add(-time.Hour)) }

// reports has a kubelet report so many GPUs, and since when it is ready; zero: it is not.
func reports(t *testing.T, name, gpus string, ready metav1.Time) {
	t.Helper()
	kubelet := nodekeep.Kubelet(t, name)
	harness.Eventually(t, func() bool {
		node, err := kubelet.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		for _, list := range []corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
			delete(list, "nvidia.com/gpu")
			if gpus != "" {
				list["nvidia.com/gpu"] = resource.MustParse(gpus)
			}
		}
		condition := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady"}
		if !ready.IsZero() {
			condition.Status, condition.Reason, condition.LastTransitionTime = corev1.ConditionTrue, "KubeletReady", ready
		}
		node.Status.Conditions = []corev1.NodeCondition{condition}
		_, err = kubelet.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
		return err == nil
	}, settles, 20*time.Millisecond)
}

// becomes waits until a Node has exactly these of the labels that the rules set, and no gate.
func becomes(t *testing.T, name string, want map[string]string) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	var got map[string]string
	harness.Eventually(t, func() bool {
		node = nodekeep.Node(t, name)
		got = ruled(node)
		return maps.Equal(got, want) && !harness.Gated(node)
	}, settles, 20*time.Millisecond, "node %s must come to carry %v; it has %v", name, want, &got)
	return node
}

// ruled returns the labels of a Node that the rules may set.
func ruled(node *corev1.Node) map[string]string {
	labels := map[string]string{}
	for _, key := range []string{"accelerator", "gpu.count", gpuWorker, "hardware.tier", "voice-pipeline"} {
		if value, ok := node.Labels[key]; ok {
			labels[key] = value
		}
	}
	return labels
}

func TestRulesSetLabelsAtRegistrationAndFollowWhatTheKubeletReports(t *testing.T) {
	type labels = map[string]string
	dualGPU := labels{"accelerator": "nvidia-gpu", "gpu.count": "2", gpuWorker: "", "hardware.tier": "dual-gpu"}
	withPolicy(t, rulesPolicy, func() {
		t.Run("a name decides in the CREATE itself", func(t *testing.T) {
			assert.Equal(t, labels{"voice-pipeline": "enabled"}, ruled(nodekeep.Register(t, "pgmac-1")), "whether it has two GPUs is not known yet")
			becomes(t, "pgmac-1", labels{"voice-pipeline": "enabled"})
			reports(t, "pgmac-1", "", longReady())
			becomes(t, "pgmac-1", labels{"voice-pipeline": "enabled", "hardware.tier": "high-performance"})
		})
		t.Run("a GPU Node registers again with its labels before its device plugin does", func(t *testing.T) {
			const name = "rules-gpu-1"
			nodekeep.Register(t, name)
			reports(t, name, "2", longReady())
			node := becomes(t, name, dualGPU)
			assert.Contains(t, harness.TaintsOf(node), "accelerator=nvidia-gpu:NoSchedule", "taint rules see derived labels")
			nodekeep.Label(t, name, labels{"rack": "r1"})
			record := nodekeep.WaitRecorded(t, node, labels{"rack": "r1"})
			assert.Equal(t, "2", record.RuleLabels["gpu.count"].Value, "nobody's decision, but remembered for the next registration")

			nodekeep.DeleteNode(t, name)
			returned := nodekeep.Register(t, name)
			ordinary := maps.Clone(dualGPU)
			delete(ordinary, gpuWorker)
			assert.Equal(t, ordinary, ruled(returned), "in the CREATE")
			assert.Equal(t, "r1", returned.Labels["rack"])
			assert.True(t, harness.Gated(returned), "the protected label is still to come")
			assert.Contains(t, harness.TaintsOf(returned), "accelerator=nvidia-gpu:NoSchedule")
			becomes(t, name, dualGPU)

			reports(t, name, "0", metav1.Now()) // the kubelet has started again, and its plugin has not
			staysAs(t, becomes(t, name, dualGPU))
			reports(t, name, "1", longReady()) // the other may follow: a plugin registers one device after the other
			becomes(t, name, labels{"accelerator": "nvidia-gpu", "gpu.count": "1", gpuWorker: "", "hardware.tier": "dual-gpu"})
			known := history.Changes(nodekeep.WaitRecorded(t, returned, labels{"rack": "r1"}))
			last := known[len(known)-1]
			assert.Equal(t, history.RuleActor("gpu"), last.Actor)
			assert.Equal(t, map[string]history.Values{"gpu.count": {From: new("2"), To: new("1")}}, last.Items)
		})
		t.Run("a label that an operator sets stays, and the rule sets it again once it is removed", func(t *testing.T) {
			const name = "rules-operator-1"
			nodekeep.Register(t, name)
			reports(t, name, "", longReady())
			becomes(t, name, labels{"hardware.tier": "standard"})
			nodekeep.Label(t, name, labels{"hardware.tier": "special"})
			node := becomes(t, name, labels{"hardware.tier": "special"})
			nodekeep.WaitRecorded(t, node, labels{"hardware.tier": "special"})
			nodekeep.WaitEvent(t, name, "ItemTaken")
			assert.NotContains(t, nodekeep.Node(t, name).Annotations, policy.LabelsAnnotation)
			nodekeep.DeleteNode(t, name)
			assert.Equal(t, labels{"hardware.tier": "special"}, ruled(nodekeep.Register(t, name)))
			reports(t, name, "", longReady())
			nodekeep.Label(t, name, map[string]any{"hardware.tier": nil})
			becomes(t, name, labels{"hardware.tier": "standard"})
		})
		t.Run("a policy with a rule that cannot be is not taken over", func(t *testing.T) {
			wrong := strings.Replace(rulesPolicy, "    - name: rest\n", "    - {name: wrong, when: {names: [\"^(db-\"]}, set: {voice-pipeline: disabled}}\n    - name: rest\n", 1)
			reported := nextPolicyEvent(t, "PolicyInvalid")
			nodekeep.ForcePolicy(t, wrong)
			reported()
			assert.Equal(t, labels{"voice-pipeline": "enabled"}, ruled(nodekeep.Register(t, "pgmac-2")), "the last good one counts")
			nodekeep.SetPolicy(t, rulesPolicy)
		})
		all, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		eachNode(harness.Names("pgmac-many", len(all.Items)/9+1), func(name string) { // more than one in ten, however many other tests have left
			nodekeep.Register(t, name)
			becomes(t, name, labels{"voice-pipeline": "enabled"})
		})
	})
	for _, name := range []string{"pgmac-1", "rules-gpu-1", "rules-operator-1"} {
		assert.NotEmpty(t, ruled(nodekeep.Node(t, name)), "rules that were removed from the policy would remove labels on too many Nodes: they are held")
	}
	kept := labels{"accelerator": "nvidia-gpu", "gpu.count": "1", gpuWorker: "", "hardware.tier": "dual-gpu"}
	nodekeep.DeleteNode(t, "rules-gpu-1")
	nodekeep.Register(t, "rules-gpu-1")
	becomes(t, "rules-gpu-1", kept) // the protected label, too, which no kubelet carries in its CREATE
	nodekeep.WithoutWebhook(t, func() {
		nodekeep.DeleteNode(t, "rules-gpu-1")
		assert.Empty(t, ruled(nodekeep.Register(t, "rules-gpu-1")))
		becomes(t, "rules-gpu-1", kept)
	})
	acceptRules(t)
	for _, name := range []string{"pgmac-1", "rules-gpu-1", "rules-operator-1"} {
		becomes(t, name, labels{})
		assert.NotContains(t, nodekeep.Node(t, name).Annotations, policy.LabelsAnnotation)
	}
}

func TestARuleThatMakesWhatNoLabelCanBeIsReportedAndTheNodeRegistersWithoutIt(t *testing.T) {
	const name = "rules-invalid-1"
	withPolicy(t, policytest.Manifest("labels:\n  rules:\n"+
		"  - {name: kernel, when: {names: [rules-invalid-*]}, set: {kernel: \"{node.kernel}\", hardware.tier: standard}}\n"), func() {
		node := harness.Registration(name)
		node.Status.NodeInfo.KernelVersion = "6.1 (rebuilt)"
		returned := nodekeep.RegisterNode(t, node)
		assert.Equal(t, map[string]string{"hardware.tier": "standard"}, ruled(returned))
		assert.NotContains(t, returned.Labels, "kernel")
		nodekeep.WaitEvent(t, name, "RuleLabelInvalid")
		becomes(t, name, map[string]string{"hardware.tier": "standard"})
		nodekeep.DeleteNode(t, name)
	})
}

func TestHeartbeatsCauseNoWriteAtAnyNumberOfRules(t *testing.T) {
	const name = "rules-beating-1"
	rules := "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec:\n  labels:\n    rules:\n"
	for i := range 50 {
		rules += fmt.Sprintf("    - {name: rule-%d, when: {names: [rules-beating-*], capacity: {cpu: \">=%d\"}}, set: {hardware.tier: at-least-%d}}\n", i, 50-i, 50-i)
	}
	ignored := func() {
		captureHasSeenAll(t)
		record := nodekeep.RecordMap(t, name).ResourceVersion
		staysAs(t, beats(t, name, 20))
		assert.Equal(t, record, nodekeep.RecordMap(t, name).ResourceVersion)
	}
	node := nodekeep.RegisterRecorded(t, name, map[string]string{"dedicated": "ci"})
	ignored()
	withPolicy(t, rules, func() {
		capacity := harness.MustJSON(t, map[string]any{"status": map[string]any{"capacity": map[string]string{"cpu": "16"}}})
		_, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, capacity, metav1.PatchOptions{}, "status")
		require.NoError(t, err)
		becomes(t, name, map[string]string{"hardware.tier": "at-least-16"})
		nodekeep.WaitRecorded(t, node, map[string]string{"dedicated": "ci"})
		ignored()
	})
}

// acceptRules accepts the rules of the NodePolicy and returns when they are in force. capture looks every ten seconds, and when it reads
// another generation. An acceptance of rules that are in force already must not outlive this: it would count for the same rules later.
func acceptRules(t *testing.T) {
	t.Helper()
	nodekeep.AcceptRules(t)
	nodekeep.RenewPolicy(t)
	p, err := policy.Load([]byte(nodekeep.Policy(t)), policy.DefaultGate)
	require.NoError(t, err)
	maps := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace)
	require.Eventually(t, func() bool {
		state, err := maps.Get(t.Context(), store.AcceptedConfigMap, metav1.GetOptions{})
		return err == nil && state.Data[store.RulesInForce] == p.RulesHash()
	}, settles, 20*time.Millisecond, "the rules must come into force")
	withdrawn := harness.MustJSON(t, map[string]any{"data": map[string]any{store.RulesAccepted: nil}})
	_, err = maps.Patch(t.Context(), store.AcceptedConfigMap, types.MergePatchType, withdrawn, metav1.PatchOptions{})
	require.NoError(t, err)
}
