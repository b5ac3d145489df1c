package removal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

const settles = 4 * time.Minute // a control Pod that is too old is asked again after a minute

// removing has one removal an hour, whichever profile it is for.
const removing = `apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  verify:
    limits: {stopAbove: 100%%}
    profiles:
%s`

// shortly is the value of label onfailure of the profile whose worker Pods must start soon.
const shortly = "shortly"

func profileOf(name string, kind verify.RemovalKind, startTimeout string) string {
	return fmt.Sprintf(`    - name: %s
      nodeSelector: onfailure=%s
      checks: [{name: dns, dns: {names: [kubernetes.default.svc]}}]
      attempts: {max: 1, backoff: 1s, maxBackoff: 1s}
      startTimeout: %s
      onFailure: %s
`, strings.ToLower(name), name, startTimeout, kind)
}

func removingPolicy() string {
	profiles := ""
	for _, kind := range verify.RemovalKinds() {
		profiles += profileOf(string(kind), kind, "2m")
	}
	profiles += profileOf(shortly, verify.RemoveNode, "30s")
	return fmt.Sprintf(removing, profiles)
}

// kubelets give each worker Pod and control Pod its end: those of Nodes whose names begin with broken fail, and all of them while fault is set.
// Nodes whose names begin with new have no image yet: while registryDown is set, they cannot pull it.
type kubelets struct{ fault, registryDown atomic.Bool }

func runKubelets(t *testing.T) *kubelets {
	t.Helper()
	k := &kubelets{}
	nodekeep.RunWorkers(t, k.status)
	return k
}

func (k *kubelets) status(pod *corev1.Pod, task verify.Task) bool {
	if k.registryDown.Load() && strings.HasPrefix(pod.Spec.NodeName, "new") {
		waits := len(pod.Status.ContainerStatuses) > 0
		pod.Status.Phase = corev1.PodPending
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: verify.Worker, Image: "i", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "dial tcp: lookup registry.example.com: no such host"},
		}}}
		return !waits
	}
	message, code := harness.WorkerReport(task.Checks, verify.Passed, ""), int32(0)
	if k.fault.Load() || strings.HasPrefix(pod.Spec.NodeName, "broken") {
		message, code = harness.WorkerReport(task.Checks, verify.Failed, verify.ReasonTimeout), 1
	}
	harness.SetEnded(pod, message, code)
	return true
}

// toCheck registers a Ready Node of the profile of a kind; it has the taint unless it is verified.
func toCheck(t *testing.T, name string, kind verify.RemovalKind, verified bool, change func(*corev1.Node)) *corev1.Node {
	t.Helper()
	register(t, name, func(node *corev1.Node) {
		node.Labels["onfailure"] = string(kind)
		if !verified {
			node.Spec.Taints = []corev1.Taint{{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}}
		}
		if change != nil {
			change(node)
		}
	})
	t.Cleanup(func() { _ = nodekeep.Admin.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}) })
	annotations, taints := map[string]any{}, []corev1.Taint{} // neither capture nor the node lifecycle controller runs, which would remove the other taints
	if verified {
		annotations[verify.Annotation] = verify.Progress{Round: 1, Last: &verify.Last{Result: verify.VerdictPassed}}.String()
	} else {
		taints = []corev1.Taint{{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}}
	}
	made := nodekeep.MergeNode(t, name, map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": map[string]any{"taints": taints}})
	made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()}}
	made.Status.NodeInfo.BootID = "boot-1"
	made, err := nodekeep.Admin.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)
	return made
}

func progressOf(t *testing.T, name string) verify.Progress {
	t.Helper()
	node, err := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return verify.Progress{}
	}
	return verify.ParseProgress(node.Annotations[verify.Annotation])
}

// waitHeld waits until the removal of a Node is held back, and returns why.
func waitHeld(t *testing.T, name string) verify.Brake {
	t.Helper()
	var held *verify.Brake
	harness.Eventually(t, func() bool { held = progressOf(t, name).RemovalHeld; return held != nil }, settles, 100*time.Millisecond, name)
	return *held
}

// waitBrakeOpen waits until the controller's metrics say that a brake is open.
func waitBrakeOpen(t *testing.T, reason verify.BrakeReason) {
	t.Helper()
	harness.Eventually(t, func() bool {
		return harness.Series(t, nodekeep.MetricsURL("verify"), fmt.Sprintf(`nodekeep_verify_brake_open{reason=%q}`, reason)) == 1
	}, settles, 100*time.Millisecond)
}

func ledger(t *testing.T) verify.Ledger {
	t.Helper()
	object, err := nodekeep.Admin.CoreV1().ConfigMaps(verify.Namespace).Get(t.Context(), verify.LedgerMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return verify.Ledger{}
	}
	require.NoError(t, err)
	read, err := verify.ParseLedger(object.Data[verify.LedgerKey])
	require.NoError(t, err)
	return read
}

// begin has the controller run as the shipped account, with an empty ledger, and without the control Pods of the test before.
func begin(t *testing.T, args ...string) {
	t.Helper()
	beginWith(t, func(*kubelets) {}, args...)
}

// beginWith is begin with kubelets that fail from the controller's first Pod on.
func beginWith(t *testing.T, fail func(k *kubelets), args ...string) *kubelets {
	t.Helper()
	_ = nodekeep.Admin.CoreV1().ConfigMaps(verify.Namespace).Delete(context.Background(), verify.LedgerMap, metav1.DeleteOptions{})
	require.NoError(t, nodekeep.Admin.CoreV1().Pods(verify.Namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}))
	k := runKubelets(t)
	fail(k)
	require.NoError(t, nodekeep.StartVerify(context.Background(), args...))
	t.Cleanup(func() {
		_ = nodekeep.StopVerify()
		_ = nodekeep.Admin.CoreV1().ConfigMaps(verify.Namespace).Delete(context.Background(), verify.LedgerMap, metav1.DeleteOptions{})
	})
	return k
}

func gone(err error) bool { return apierrors.IsNotFound(err) }

func TestOneBrokenNodeOfFiftyIsRemovedOnceByTheKindOfItsProfileAndNoneWithAWorkload(t *testing.T) {
	for _, kind := range verify.RemovalKinds() {
		t.Run(string(kind), func(t *testing.T) {
			broken, good := "broken-"+strings.ToLower(string(kind)), "good-"+strings.ToLower(string(kind))
			o := claim(t, broken+"-other", good, "box://"+good)
			current := claim(t, broken+"-own", broken, "box://"+broken)
			box := machine(t, broken, broken, "box://"+broken)
			machine(t, good, good, "box://"+good)
			toCheck(t, good, kind, true, ofClaim(o))
			for i := range 48 {
				toCheck(t, fmt.Sprint(good, "-", i), kind, true, nil)
			}
			toCheck(t, broken, kind, false, func(node *corev1.Node) {
				ofClaim(current)(node)
				ofMachine("default", broken)(node)
			})
			runPod(t, "agent-"+broken, broken, ofDaemonSet)
			busy := broken + "-busy"
			toCheck(t, busy, kind, false, func(node *corev1.Node) {
				ofClaim(claim(t, busy, busy, "box://"+busy))(node)
				ofMachine("default", machine(t, busy, busy, "box://"+busy).GetName())(node)
			})
			runPod(t, "workload-"+busy, busy, nil)
			begin(t)
			harness.Eventually(t, func() bool {
				entries := ledger(t).Removals
				return len(entries) == 1 && entries[0].Done && entries[0].Node == broken
			}, settles, 100*time.Millisecond, "%+v", progressOf(t, broken))
			nodekeep.WaitEvent(t, broken, "NodeRemoved")
			assert.Equal(t, verify.Brake{Reason: verify.BrakePods, Message: "Pod default/workload-" + busy + " runs on the Node"}, waitHeld(t, busy))
			if kind != verify.RemoveNode {
				harness.Eventually(t, func() bool { return progressOf(t, broken).Removing == kind && progressOf(t, broken).Attempts >= 3 }, settles, 100*time.Millisecond)
			}

			_, ownErr := admin(t).Resource(nodeClaims).Get(t.Context(), current.GetName(), metav1.GetOptions{})
			assert.Equal(t, kind == verify.RemoveNodeClaim, gone(ownErr), "%v", ownErr)
			_, nodeErr := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), broken, metav1.GetOptions{})
			assert.Equal(t, kind == verify.RemoveNode, gone(nodeErr), "%v", nodeErr)
			assert.Equal(t, kind == verify.RemoveMachine, marked(t, box.GetName()))
			_, err := admin(t).Resource(nodeClaims).Get(t.Context(), o.GetName(), metav1.GetOptions{})
			require.NoError(t, err)
			_, err = admin(t).Resource(nodeClaims).Get(t.Context(), busy, metav1.GetOptions{})
			require.NoError(t, err)
			assert.False(t, marked(t, good) || marked(t, busy))
			nodekeep.Node(t, busy)
			nodes, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "onfailure=" + string(kind)})
			require.NoError(t, err)
			assert.Len(t, slices.DeleteFunc(nodes.Items, func(node corev1.Node) bool { return !strings.HasPrefix(node.Name, good) }), 49)
			assert.Equal(t, 1, eventsOf(t, "NodeRemoved", broken))
			assert.Len(t, ledger(t).Removals, 1, "it counts once")
		})
	}
}

// eventsOf returns how often an Event of this reason was reported about a Node of this name, and those whose names begin with it and a dash.
func eventsOf(t *testing.T, reason, name string) (times int) {
	t.Helper()
	list, err := nodekeep.Admin.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,reason=" + reason})
	require.NoError(t, err)
	for _, event := range list.Items {
		if strings.HasPrefix(event.InvolvedObject.Name+"-", name+"-") {
			times += max(1, int(event.Count))
		}
	}
	return times
}

// twoHundred registers Nodes whose names begin with prefix. What it returns reports whether something holds for each of them.
func twoHundred(t *testing.T, prefix string, change func(*corev1.Node)) (perNode func(func(*corev1.Node, verify.Progress) bool) func() bool) {
	t.Helper()
	const plural = 200
	for i := range plural {
		toCheck(t, fmt.Sprint(prefix, "-", i), verify.RemoveNode, false, change)
	}
	return func(holds func(*corev1.Node, verify.Progress) bool) func() bool {
		return func() bool {
			list, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			ofThem := slices.DeleteFunc(list.Items, func(node corev1.Node) bool {
				return !strings.HasPrefix(node.Name, prefix+"-") || !holds(&node, verify.ParseProgress(node.Annotations[verify.Annotation]))
			})
			return len(ofThem) == plural
		}
	}
}

func isOpen(node *corev1.Node, _ verify.Progress) bool {
	return node.Labels[verify.Label] == "true" && len(node.Spec.Taints) == 0
}

func TestAFaultThatTwoHundredNodesShareRemovesNoneAndOneEventSaysWhy(t *testing.T) {
	const fault = "fault"
	toCheck(t, "verified-fault", verify.RemoveNode, true, nil)
	perNode := twoHundred(t, fault, nil)
	k := beginWith(t, func(k *kubelets) { k.fault.Store(true) })
	require.Eventually(t, perNode(func(_ *corev1.Node, progress verify.Progress) bool { return progress.Shared > 0 }), settles, time.Second)
	assert.True(t, perNode(func(_ *corev1.Node, progress verify.Progress) bool {
		return progress.Attempts == 0 && progress.RemovalHeld != nil && progress.RemovalHeld.Reason == verify.BrakeSharedFailure
	})())
	nodekeep.WaitEvent(t, "verified-fault", "SharedFailure")
	assert.Equal(t, 1, eventsOf(t, "SharedFailure", "verified-fault"))
	for _, reason := range []string{"VerificationFailed", "VerificationStuck", "RemovalHeld"} {
		assert.Zero(t, eventsOf(t, reason, fault), reason)
	}
	require.Len(t, ledger(t).Brakes, 1)
	assert.Equal(t, verify.BrakeSharedFailure, ledger(t).Brakes[0].Reason)
	waitBrakeOpen(t, verify.BrakeSharedFailure)

	k.fault.Store(false)
	require.Eventually(t, perNode(isOpen), settles, time.Second)
	assert.Empty(t, ledger(t).Removals)
	assert.Zero(t, eventsOf(t, "NodeRemoved", fault))
}

// A verified Node has the image, so a control Pod would pass: that no attempt has failed is what keeps the Nodes.
func TestARegistryThatIsDownForTwoHundredNewNodesRemovesNoneAndOneEventSaysWhy(t *testing.T) {
	labelled := func(node *corev1.Node) { node.Labels["onfailure"] = shortly }
	toCheck(t, "registry-verified", verify.RemoveNode, true, labelled)
	perNode := twoHundred(t, "new", labelled)
	k := beginWith(t, func(k *kubelets) { k.registryDown.Store(true) })
	require.Eventually(t, perNode(func(_ *corev1.Node, progress verify.Progress) bool {
		return progress.Attempts > 0 && progress.Failed == 0 && progress.Last.Result == verify.VerdictInconclusive && strings.Contains(progress.Last.Message, "ErrImagePull")
	}), settles, time.Second)
	assert.Empty(t, ledger(t).Removals)
	assert.True(t, perNode(func(node *corev1.Node, _ verify.Progress) bool { return len(node.Spec.Taints) > 0 })(), "all of them wait")
	harness.Eventually(t, func() bool { return eventsOf(t, "VerificationStuck", "new") > 0 }, settles, 100*time.Millisecond) // attempts.max is 1
	assert.Equal(t, 1, eventsOf(t, "VerificationStuck", "new"), "for all of them")
	assert.Zero(t, eventsOf(t, "VerificationFailed", "new"))

	k.registryDown.Store(false)
	require.Eventually(t, perNode(isOpen), settles, time.Second)
	assert.Empty(t, ledger(t).Removals)
	assert.Zero(t, eventsOf(t, "NodeRemoved", "new"))
}

func marked(t *testing.T, name string) bool {
	t.Helper()
	object, err := admin(t).Resource(machines).Namespace("default").Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	_, ok := object.GetAnnotations()[remediate]
	return ok
}

func TestAControllerThatIsLiedToRemovesNothingAndSaysWhy(t *testing.T) {
	victim := claim(t, "lie-victim", "lie-victim", "box://lie-victim")
	prev := claim(t, "lie-again", "broken-lie-uid", "box://broken-lie-uid")
	require.NoError(t, admin(t).Resource(nodeClaims).Delete(t.Context(), "lie-again", metav1.DeleteOptions{}))
	reread := claim(t, "lie-again", "broken-lie-uid", "box://broken-lie-uid")
	toCheck(t, "good-lie", verify.RemoveNodeClaim, true, nil)
	toCheck(t, "broken-lie-owner", verify.RemoveNodeClaim, false, ofClaim(victim))
	toCheck(t, "broken-lie-uid", verify.RemoveNodeClaim, false, ofClaim(prev))
	toCheck(t, "good-lie-machine", verify.RemoveMachine, true, nil)
	toCheck(t, "broken-lie-machine", verify.RemoveMachine, false, ofMachine("default", machine(t, "lie-machine", "good-lie-machine", "box://good-lie-machine").GetName()))
	begin(t)
	for name, says := range map[string]string{
		"broken-lie-owner":   `status.nodeName of that NodeClaim is "lie-victim"`,
		"broken-lie-uid":     "that NodeClaim has the uid",
		"broken-lie-machine": `status.nodeRef of that Machine names Node "good-lie-machine"`,
	} {
		held := waitHeld(t, name)
		assert.Equal(t, verify.BrakeRefused, held.Reason)
		assert.Contains(t, held.Message, says)
		nodekeep.WaitEvent(t, name, "RemovalHeld")
	}
	for _, item := range []*unstructured.Unstructured{victim, reread} {
		_, err := admin(t).Resource(nodeClaims).Get(t.Context(), item.GetName(), metav1.GetOptions{})
		require.NoError(t, err)
	}
	assert.False(t, marked(t, "lie-machine"))
	assert.Empty(t, ledger(t).Removals)
}

func TestTwoControllersThatAreKilledAgainAndAgainRemoveNoMoreThanTheBudget(t *testing.T) {
	toCheck(t, "good-killed", verify.RemoveNode, true, nil)
	var broken []string
	for i := range 4 {
		broken = append(broken, fmt.Sprint("broken-killed-", i))
		toCheck(t, broken[i], verify.RemoveNode, false, nil)
	}
	begin(t, "--leader-elect=false")
	second := nodekeep.StartReplica(t, "verify", "--image", "nodekeep:test", "--leader-elect=false").UntilReady(t)
	for range 5 {
		require.NoError(t, nodekeep.KillVerify())
		require.NoError(t, nodekeep.StartVerify(context.Background(), "--leader-elect=false"))
	}
	remaining := func() (names []string) {
		for _, name := range broken {
			if _, err := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{}); !gone(err) {
				names = append(names, name)
			}
		}
		return names
	}
	harness.Eventually(t, func() bool {
		left := remaining()
		for _, name := range left {
			if held := progressOf(t, name).RemovalHeld; held == nil || held.Reason != verify.BrakeCooldown && held.Reason != verify.BrakeBudget {
				return false
			}
		}
		return len(left) < 4
	}, settles, 100*time.Millisecond)
	require.NoError(t, second.Process.Stop())
	assert.Len(t, remaining(), 3, "the cooldown is 15 minutes")
	assert.Len(t, ledger(t).Removals, 1)
}

// Brakes are read off the API server, so a process that has just started knows them.
func TestABrakeThatTheLedgerHoldsIsOpenAfterARestart(t *testing.T) {
	toCheck(t, "good-ledger", verify.RemoveNode, true, nil)
	for reason, prev := range map[verify.BrakeReason]verify.Removal{
		verify.BrakeBudget:   {Node: "before", Time: time.Now()},
		verify.BrakeSameNode: {Node: "broken-ledger-samenode", Time: time.Now().Add(-23 * time.Hour)}, // another Node object of the name
	} {
		t.Run(string(reason), func(t *testing.T) {
			prev.UID, prev.Kind, prev.Profile, prev.Done = "before", verify.RemoveNode, "node", true
			prev.Time = prev.Time.UTC()
			begin(t, "--leader-elect=false")
			require.NoError(t, nodekeep.KillVerify())
			controller, _ := shipped(t)
			maps := controller.CoreV1().ConfigMaps(verify.Namespace)
			_ = maps.Delete(t.Context(), verify.LedgerMap, metav1.DeleteOptions{})
			_, err := maps.Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: verify.LedgerMap}, Data: map[string]string{verify.LedgerKey: verify.Ledger{Removals: []verify.Removal{prev}}.String()},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			name := strings.ToLower("broken-ledger-" + string(reason))
			toCheck(t, name, verify.RemoveNode, false, nil)
			require.NoError(t, nodekeep.StartVerify(context.Background()))
			harness.Eventually(t, func() bool {
				held := progressOf(t, name).RemovalHeld
				return held != nil && held.Reason == reason && held.End.After(time.Now())
			}, settles, 100*time.Millisecond)
			waitBrakeOpen(t, reason)
			nodekeep.WaitEvent(t, name, "RemovalHeld")
			nodekeep.Node(t, name)
			assert.Equal(t, []verify.Removal{prev}, ledger(t).Removals, "nothing was removed")
		})
	}
}
