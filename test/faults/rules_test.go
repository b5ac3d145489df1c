package faults

import (
	"context"
	"fmt"
	"maps"
	"net/http"
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
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
)

const gpuWorker = "node-role.kubernetes.io/gpu-worker"

// labelRules is a policy with rules for labels, for Nodes of these tests alone.
const labelRules = `apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  labels:
    rules:
    - {name: gpu, trust: kubelet, when: {names: ["ruled-*"], capacity: {nvidia.com/gpu: ">=1"}}, set: {accelerator: nvidia-gpu, gpu.count: "{capacity.nvidia.com/gpu}", node-role.kubernetes.io/gpu-worker: ""}}
    - {name: large, when: {names: ["ruled-*"], capacity: {cpu: ">=16"}}, set: {size: large}}
    - {name: little, when: {names: ["ruled-*"]}, set: {size: little}}
  taints:
    rules:
    - {selector: accelerator=nvidia-gpu, taint: "accelerator=nvidia-gpu:NoSchedule"}
`

// gpuLabels are those of a Node with two GPUs.
var gpuLabels = map[string]string{"accelerator": "nvidia-gpu", "gpu.count": "2", gpuWorker: "", "size": "little"}

const gpuTaint = "accelerator=nvidia-gpu:NoSchedule"

// followRules has both processes follow labelRules until the end of the test.
func followRules(t *testing.T) {
	t.Helper()
	head := nodekeep.Policy(t)
	nodekeep.SetPolicy(t, labelRules)
	t.Cleanup(func() { nodekeep.SetPolicy(t, head) })
	nodekeep.RulesInForce(t)
}

// reportsGPUs has a kubelet say how many there are, of a Node that has been ready for so long.
func reportsGPUs(t *testing.T, name string, gpus any, ready time.Duration) {
	t.Helper()
	resources := map[string]any{"nvidia.com/gpu": gpus}
	kubeletSays(t, name, map[string]any{"capacity": resources, "allocatable": resources, "conditions": []map[string]any{
		{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": time.Now().Add(-ready).UTC().Format(time.RFC3339)},
	}})
}

func kubeletSays(t *testing.T, name string, status map[string]any) {
	t.Helper()
	_, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, harness.MustJSON(t, map[string]any{"status": status}), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}

// ruledNode registers a Node with two GPUs and waits until it has its labels and taints, and its record knows.
func ruledNode(t *testing.T, name string) {
	t.Helper()
	nodekeep.Register(t, name)
	reportsGPUs(t, name, "2", time.Hour)
	untilExactly(t, name, gpuLabels)
	harness.Eventually(t, func() bool {
		r, ok := nodekeep.Record(t, name)
		return ok && r.RuleLabels["gpu.count"].Value == "2"
	}, harness.Settles, 20*time.Millisecond)
}

// untilExactly waits until a Node shows exactly these labels of those that the rules set, and no gate.
func untilExactly(t *testing.T, name string, want map[string]string) (node *corev1.Node) {
	t.Helper()
	var got map[string]string
	harness.Eventually(t, func() bool {
		node = nodekeep.Node(t, name)
		got = ruledLabels(node)
		return maps.Equal(got, want) && !harness.Gated(node)
	}, harness.Settles, 20*time.Millisecond, "node %s must come to carry %v; it has %v", name, want, &got)
	return node
}

func ruledLabels(node *corev1.Node) map[string]string {
	labels := map[string]string{}
	for _, key := range []string{"accelerator", "extra", "gpu.count", gpuWorker, "size"} {
		if value, ok := node.Labels[key]; ok {
			labels[key] = value
		}
	}
	return labels
}

// changesOf counts how often each label was changed in the states of a Node.
func changesOf(states []harness.State) map[string]int {
	changes, prev := map[string]int{}, map[string]string{}
	for n, state := range states {
		now := ruledLabels(state.Node)
		for _, key := range []string{"accelerator", "extra", "gpu.count", gpuWorker, "size"} {
			old, ok := prev[key]
			if value, found := now[key]; n > 0 && (found != ok || value != old) {
				changes[key]++
			}
		}
		prev = now
	}
	return changes
}

func TestAKubeletThatReportsNoCPUGetsNoDefaultAndNoRefusal(t *testing.T) {
	followRules(t)
	const name = "ruled-cpu"
	node := harness.Registration(name)
	node.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("32"), "memory": resource.MustParse("64Gi")}
	nodekeep.RegisterNode(t, node)
	large := map[string]string{"size": "large"}
	untilExactly(t, name, large)
	harness.Eventually(t, func() bool { r, ok := nodekeep.Record(t, name); return ok && r.RuleLabels["size"].Value == "large" }, harness.Settles, 20*time.Millisecond)

	nodekeep.DeleteNode(t, name)
	node = harness.Registration(name) // cAdvisor fails
	node.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("0"), "memory": resource.MustParse("0")}
	returned := nodekeep.RegisterNode(t, node)
	assert.Equal(t, large, ruledLabels(returned), "the rule of before, in the CREATE; not the default")
	watcher := nodekeep.WatchNodes(t)
	kubeletSays(t, name, map[string]any{"capacity": map[string]any{"cpu": "32", "memory": "64Gi"}})
	untilExactly(t, name, large)
	watcher.Stop()
	assert.Empty(t, changesOf(watcher.States(name)))

	fresh := harness.Registration("ruled-cpu-fresh")
	fresh.Status.Capacity = node.Status.Capacity
	assert.Empty(t, ruledLabels(nodekeep.RegisterNode(t, fresh)), "of a machine that nobody knows, nothing is said")
	kubeletSays(t, fresh.Name, map[string]any{"capacity": map[string]any{"cpu": "2"}})
	untilExactly(t, fresh.Name, map[string]string{"size": "little"})
}

func TestAGPUNodeThatRegistersWhileTheWebhookIsDownIsGatedUntilCaptureHasGivenItsLabelsBack(t *testing.T) {
	followRules(t)
	const name = "ruled-webhook"
	ruledNode(t, name)
	watcher := nodekeep.WatchNodes(t)
	nodekeep.WithoutWebhook(t, func() {
		nodekeep.DeleteNode(t, name)
		assert.True(t, harness.Gated(nodekeep.Register(t, name)))
		untilExactly(t, name, gpuLabels)
	})
	neverSchedulableWithout(t, watcher.Stop(), expected([]string{name}, gpuLabels), gpuTaint)
}

func TestAGPUNodeThatRegistersWhileCaptureIsDownHasItsLabelsInTheCREATEAndNoneChangesWhenCaptureIsBack(t *testing.T) {
	followRules(t)
	const name = "ruled-capture"
	ruledNode(t, name)
	watcher := nodekeep.WatchNodes(t)
	nodekeep.WithoutCapture(t, func() {
		nodekeep.DeleteNode(t, name)
		returned := nodekeep.Register(t, name)
		ordinary := maps.Clone(gpuLabels)
		delete(ordinary, gpuWorker)
		assert.Equal(t, ordinary, ruledLabels(returned))
		assert.True(t, harness.Gated(returned), "the protected label waits")
		assert.True(t, harness.Carries(returned, gpuTaint))
	})
	untilExactly(t, name, gpuLabels)
	seen := watcher.Stop()
	neverSchedulableWithout(t, seen, expected([]string{name}, gpuLabels), gpuTaint)
	assert.Equal(t, map[string]int{gpuWorker: 1}, changesOf(watcher.States(name)), "the protected label comes, and nothing else moves")
}

func TestCaptureThatIsKilledBetweenTheRecordAndThePatchSetsTheLabelsOfRulesAtItsNextStart(t *testing.T) {
	followRules(t)
	p := captureProxy(t)
	for _, moment := range []proxy.Moment{proxy.BeforeRequest, proxy.AfterResponse} {
		name := fmt.Sprintf("ruled-killed-%d", moment)
		nodekeep.Register(t, name)
		untilExactly(t, name, map[string]string{"size": "little"})
		reached := make(chan struct{})
		p.Break(proxy.Hold(proxy.About(name, proxy.NodeWrites), 1, moment, func(*http.Request) { close(reached) }))
		watcher := nodekeep.WatchNodes(t)
		reportsGPUs(t, name, "2", time.Hour)
		select {
		case <-reached:
		case <-time.After(harness.Settles):
			t.Fatal("capture must patch the Node")
		}
		r := nodekeep.MustRecord(t, name)
		assert.Equal(t, "2", r.RuleLabels["gpu.count"].Value, "the record comes first")
		killCapture(t)
		p.Break(nil)
		require.NoError(t, nodekeep.StartCapture(context.WithoutCancel(t.Context())))
		node := untilExactly(t, name, gpuLabels)
		assert.True(t, harness.Carries(node, gpuTaint))
		seen := watcher.Stop()
		assert.NotEmpty(t, seen)
		for key, times := range changesOf(watcher.States(name)) {
			assert.Equal(t, 1, times, key)
		}
		assert.Empty(t, nodekeep.MustRecord(t, name).Items(), "none of them is recorded as a client's decision")
	}
}

func TestAKubeletThatForgesTheListOfRuledLabelsTakesNoLabelOfOperatorsAway(t *testing.T) {
	followRules(t)
	forged := policy.AnnotationContent{Labels: map[string]record.RuleLabel{
		gpuWorker: {Value: "", Rule: "gpu"}, worker: {Value: "", Rule: "gpu"}, "tier": {Value: "gold", Rule: "gpu"}, "accelerator": {Value: "nvidia-gpu", Rule: "gpu"},
	}}.Annotations(0)
	adopted := policy.AnnotationContent{Labels: map[string]record.RuleLabel{
		gpuWorker: {Value: "", Rule: "gpu", Adopted: true}, worker: {Value: "", Rule: "gpu", Adopted: true}, "tier": {Value: "gold", Rule: "gpu", Adopted: true},
	}}.Annotations(0)
	absent := policy.AnnotationContent{Labels: map[string]record.RuleLabel{
		gpuWorker: {Rule: "gpu", Absent: true}, worker: {Rule: "gpu", Absent: true}, "tier": {Rule: "gpu", Absent: true},
	}}.Annotations(0)
	operators := map[string]string{gpuWorker: "", worker: "", "tier": "gold"}
	withoutGuards(t, func() {
		for name, forge := range map[string]func(name string){
			"ruled-forged-before": func(name string) {
				node := harness.Registration(name)
				node.Annotations = forged
				nodekeep.WithoutWebhook(t, func() { nodekeep.RegisterNode(t, node) }) // it would take the annotation off
				nodekeep.Label(t, name, operators)
			},
			"ruled-forged-in-between": func(name string) {
				nodekeep.Register(t, name)
				nodekeep.WithoutCapture(t, func() {
					nodekeep.Label(t, name, operators)
					forgeAnnotations(t, name, forged)
				})
			},
			"ruled-forged-later": func(name string) {
				nodekeep.RegisterRecorded(t, name, operators)
				forgeAnnotations(t, name, forged)
			},
			"ruled-forged-adopted": func(name string) {
				nodekeep.RegisterRecorded(t, name, operators)
				forgeAnnotations(t, name, adopted)
			},
			"ruled-forged-absent": func(name string) {
				nodekeep.RegisterRecorded(t, name, operators)
				forgeAnnotations(t, name, absent)
			},
		} {
			t.Run(name, func(t *testing.T) {
				forge(name)
				nodekeep.Label(t, name, map[string]string{"last": "1"})
				want := map[string]string{gpuWorker: "", worker: "", "tier": "gold", "last": "1"}
				nodekeep.WaitRecordedAtLeast(t, nodekeep.Node(t, name), want) // the kubelet's word may make labels an operator's that it may set itself
				assert.True(t, harness.HasAll(nodekeep.Node(t, name).Labels, want))
				nodekeep.DeleteNode(t, name)
				nodekeep.Register(t, name)
				nodekeep.WaitRestored(t, name, want)
			})
		}
	})
}

// forgeAnnotations is a kubelet that writes annotations of nodekeep's.
func forgeAnnotations(t *testing.T, name string, annotations map[string]string) {
	t.Helper()
	_, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, harness.MustJSON(t, map[string]any{"metadata": map[string]any{"annotations": annotations}}), metav1.PatchOptions{})
	require.NoError(t, err)
}

func TestAKubeletThatReportsThousandsOfResourcesOrNullsIsRegisteredAndRuledLikeAnyOther(t *testing.T) {
	followRules(t)
	const name = "ruled-crowded"
	node := harness.Registration(name)
	node.Status.Capacity["nvidia.com/gpu"] = resource.MustParse("2")
	for n := range 5000 {
		node.Status.Capacity[corev1.ResourceName(fmt.Sprintf("z%04d.example.com/%s", n, strings.Repeat("x", 50)))] = resource.MustParse("1")
	}
	nodekeep.RegisterNode(t, node)
	untilExactly(t, name, gpuLabels)

	const null = "ruled-null"
	body := `{"apiVersion":"v1","kind":"Node","metadata":{"name":"` + null + `","labels":null,"annotations":null},"spec":null,"status":{"capacity":null,"allocatable":{"cpu":null},"conditions":null,"nodeInfo":null}}`
	require.NoError(t, nodekeep.Kubelet(t, null).CoreV1().RESTClient().Post().Resource("nodes").Body([]byte(body)).Do(t.Context()).Error())
	harness.Eventually(t, func() bool { return !harness.Gated(nodekeep.Node(t, null)) }, harness.Settles, 20*time.Millisecond)
	assert.Empty(t, ruledLabels(nodekeep.Node(t, null)), "how large it is, is not known")
	kubeletSays(t, null, map[string]any{"capacity": map[string]any{"cpu": "64"}, "conditions": []map[string]any{{"type": "Ready", "status": "True", "lastTransitionTime": nil}}})
	untilExactly(t, null, map[string]string{"size": "large"})
}

// A kubelet that reports another size each time has the label of a rule changed as often as it likes. What operators did stays in the
// history, and can be rolled back.
func TestAKubeletThatFlipsAFactDropsNothingThatOperatorsDidFromTheHistory(t *testing.T) {
	followRules(t)
	const name = "ruled-flips"
	node := nodekeep.Register(t, name)
	kubeletSays(t, name, map[string]any{"capacity": map[string]any{"cpu": "2"}})
	harness.Eventually(t, func() bool { r, ok := nodekeep.Record(t, name); return ok && r.RuleLabels["size"].Value == "little" }, harness.Settles, 20*time.Millisecond)
	nodekeep.Label(t, name, map[string]any{"rack": "r1"})
	nodekeep.WaitRecorded(t, node, map[string]string{"rack": "r1"})
	nodekeep.Label(t, name, map[string]any{"rack": "r2"})
	nodekeep.WaitRecorded(t, node, map[string]string{"rack": "r2"})
	flips := 2 * history.MaxOfRules
	for n := range flips {
		size := map[int]string{0: "large", 1: "little"}[n%2]
		kubeletSays(t, name, map[string]any{"capacity": map[string]any{"cpu": map[int]string{0: "64", 1: "2"}[n%2]}})
		untilExactly(t, name, map[string]string{"size": size})
	}
	last := nodekeep.WaitRecorded(t, node, map[string]string{"rack": "r2"})
	byRules, byClients := 0, 0
	for _, change := range history.Changes(last) {
		if change.Number == 0 {
			byRules++
		} else {
			byClients++
		}
	}
	assert.Equal(t, history.MaxOfRules, byRules, "of %d flips", flips)
	assert.Equal(t, 2, byClients)
	items, err := history.RollBack(last, 1)
	require.NoError(t, err)
	assert.Equal(t, map[string]*string{"rack": new("r1")}, items)
}

// captureMissesPolicies restarts capture. From then on it receives no change of the policy, until hears is called or the test ends.
func captureMissesPolicies(t *testing.T) (hears func()) {
	t.Helper()
	heard := make(chan struct{})
	p := captureProxy(t)
	p.Break(proxy.MuteUntil(proxy.WatchesOne("nodepolicies"), heard))
	nodekeep.WithoutCapture(t, func() {})
	return func() { p.Break(nil); close(heard) }
}

func TestProcessesOnDifferentPoliciesForAWhileMakeNoLabelFlap(t *testing.T) {
	followRules(t)
	const name = "ruled-policies"
	captureMissesPolicies(t)
	captureWith(t, nodekeep.Route, "--leader-elect")
	ruledNode(t, name)
	watcher := nodekeep.WatchNodes(t)
	nodekeep.SetPolicy(t, strings.ReplaceAll(labelRules, "size: little", "size: little, extra: added"), captureProcess)
	t.Cleanup(func() { nodekeep.SetPolicy(t, labelRules, captureProcess) })
	nodekeep.StartReplica(t, "capture", "--leader-elect").UntilReady(t)
	time.Sleep(12 * time.Second) // a replica that does not lead waits 3 s before it acts, and 30 s after it has begun
	require.Equal(t, gpuLabels, ruledLabels(nodekeep.Node(t, name)))
	watcher.Stop()
	assert.Empty(t, changesOf(watcher.States(name)), "the leader's policy counts")
}

func TestAWebhookAndACaptureOnDifferentPoliciesChangeALabelOnceForEachPolicy(t *testing.T) {
	followRules(t)
	const name = "ruled-differ"
	ruledNode(t, name)
	captureHears := captureMissesPolicies(t)
	newer := strings.Replace(labelRules, "  taints:\n", "    - {name: more, when: {names: [\"ruled-differ*\"]}, set: {extra: added}}\n  taints:\n", 1)
	nodekeep.SetPolicy(t, newer, captureProcess)

	watcher := nodekeep.WatchNodes(t)
	nodekeep.DeleteNode(t, name)
	assert.Equal(t, "added", nodekeep.Register(t, name).Labels["extra"], "as the webhook's policy says")
	untilExactly(t, name, gpuLabels)
	time.Sleep(2 * time.Second)
	assert.Equal(t, gpuLabels, ruledLabels(nodekeep.Node(t, name)), "as capture's policy says")
	captureHears()
	extra := maps.Clone(gpuLabels)
	extra["extra"] = "added"
	untilExactly(t, name, extra)
	time.Sleep(2 * time.Second)
	neverSchedulableWithout(t, watcher.Stop(), expected([]string{name}, gpuLabels), gpuTaint)
	assert.Equal(t, map[string]int{gpuWorker: 1, "extra": 2}, changesOf(watcher.States(name)))
}
