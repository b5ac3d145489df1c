package removal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
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
kind: Policy
verify:
  start: {perSecond: 50}
  limits: {stopAbove: 100%%, cooldown: 1h}
  profiles:
%s`

func profileOf(kind verify.RemovalKind) string {
	return fmt.Sprintf(`  - name: %s
    nodeSelector: onfailure=%s
    checks: [{name: dns, dns: {names: [kubernetes.default.svc]}}]
    attempts: {max: 1, backoff: 1s, maxBackoff: 1s}
    onFailure: %s
`, strings.ToLower(string(kind)), kind, kind)
}

func removingPolicy() string {
	profiles := ""
	for _, kind := range verify.RemovalKinds() {
		profiles += profileOf(kind)
	}
	return fmt.Sprintf(removing, profiles)
}

// kubelets give each worker Pod and control Pod its end: those of Nodes whose names begin with broken fail.
func kubelets(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			list, err := nodekeep.Admin.CoreV1().Pods(verify.Namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				continue
			}
			for _, pod := range list.Items {
				end(ctx, &pod)
			}
		}
	})
	t.Cleanup(func() { stop(); done.Wait() })
}

// end ends a Pod. Errors are those of one that was deleted meanwhile.
func end(ctx context.Context, pod *corev1.Pod) {
	pods := nodekeep.Admin.CoreV1().Pods(pod.Namespace)
	if pod.DeletionTimestamp != nil {
		_ = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		return
	}
	task, err := verify.ParseTask(pod.Spec.Containers[0].Env[0].Value)
	if err != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	outcome, reason, code, phase := verify.Passed, verify.Reason(""), int32(0), corev1.PodSucceeded
	if strings.HasPrefix(pod.Spec.NodeName, "broken") {
		outcome, reason, code, phase = verify.Failed, verify.ReasonTimeout, 1, corev1.PodFailed
	}
	report := verify.Report{Results: []verify.Result{}}
	for _, check := range task.Checks {
		report.Results = append(report.Results, verify.Result{Check: check.Name, Outcome: outcome, Required: true, Reason: reason, Millis: 1})
	}
	message, err := json.Marshal(report)
	if err != nil {
		panic(err)
	}
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: verify.Worker, Image: "i", ImageID: "i", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Completed", Message: string(message), StartedAt: metav1.Now(), FinishedAt: metav1.Now()},
	}}}
	_, _ = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
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
	if verified {
		nodekeep.MustKubectl(t, "label", "node", name, verify.Label+"=true")
	}
	t.Cleanup(func() { _ = nodekeep.Admin.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}) })
	for _, taint := range []string{"nodekeep.dev/restoring-", corev1.TaintNodeNotReady + "-"} { // neither capture nor the node lifecycle controller runs
		_, _ = nodekeep.Kubectl(t.Context(), "taint", "node", name, taint) // it may not be there
	}
	made := nodekeep.Node(t, name)
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

// begin has the controller run as the shipped account, with an empty ledger.
func begin(t *testing.T, args ...string) {
	t.Helper()
	_ = nodekeep.Admin.CoreV1().ConfigMaps(verify.Namespace).Delete(context.Background(), verify.LedgerMap, metav1.DeleteOptions{})
	kubelets(t)
	require.NoError(t, nodekeep.StartVerify(context.Background(), args...))
	t.Cleanup(func() {
		_ = nodekeep.StopVerify()
		_ = nodekeep.Admin.CoreV1().ConfigMaps(verify.Namespace).Delete(context.Background(), verify.LedgerMap, metav1.DeleteOptions{})
	})
}

func gone(err error) bool { return apierrors.IsNotFound(err) }

func TestABrokenNodeIsRemovedOnceByTheKindOfItsProfile(t *testing.T) {
	for _, kind := range verify.RemovalKinds() {
		t.Run(string(kind), func(t *testing.T) {
			broken, good := "broken-"+strings.ToLower(string(kind)), "good-"+strings.ToLower(string(kind))
			other := claim(t, broken+"-other", good, "box://"+good)
			own := claim(t, broken+"-own", broken, "box://"+broken)
			box := machine(t, broken, broken, "box://"+broken)
			machine(t, good, good, "box://"+good)
			toCheck(t, good, kind, true, ofClaim(other))
			toCheck(t, broken, kind, false, func(node *corev1.Node) {
				ofClaim(own)(node)
				ofMachine("default", broken)(node)
			})
			begin(t)
			require.Eventually(t, func() bool {
				entries := ledger(t).Removals
				return len(entries) == 1 && entries[0].Done && entries[0].Node == broken
			}, settles, 100*time.Millisecond, "%+v", progressOf(t, broken))
			nodekeep.WaitEvent(t, broken, "NodeRemoved")
			if kind != verify.RemoveNode {
				require.Eventually(t, func() bool { return progressOf(t, broken).Removing == kind && progressOf(t, broken).Attempts >= 3 }, settles, 100*time.Millisecond)
			}

			_, ownErr := admin(t).Resource(nodeClaims).Get(t.Context(), own.GetName(), metav1.GetOptions{})
			assert.Equal(t, kind == verify.RemoveNodeClaim, gone(ownErr), "%v", ownErr)
			_, nodeErr := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), broken, metav1.GetOptions{})
			assert.Equal(t, kind == verify.RemoveNode, gone(nodeErr), "%v", nodeErr)
			assert.Equal(t, kind == verify.RemoveMachine, marked(t, box.GetName()))
			_, err := admin(t).Resource(nodeClaims).Get(t.Context(), other.GetName(), metav1.GetOptions{})
			require.NoError(t, err)
			assert.False(t, marked(t, good))
			nodekeep.Node(t, good)
			assert.Len(t, ledger(t).Removals, 1, "it counts once")
		})
	}
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
	before := claim(t, "lie-again", "broken-lie-uid", "box://broken-lie-uid")
	require.NoError(t, admin(t).Resource(nodeClaims).Delete(t.Context(), "lie-again", metav1.DeleteOptions{}))
	again := claim(t, "lie-again", "broken-lie-uid", "box://broken-lie-uid")
	toCheck(t, "good-lie", verify.RemoveNodeClaim, true, nil)
	toCheck(t, "broken-lie-owner", verify.RemoveNodeClaim, false, ofClaim(victim))
	toCheck(t, "broken-lie-uid", verify.RemoveNodeClaim, false, ofClaim(before))
	begin(t)
	for name, says := range map[string]string{"broken-lie-owner": `status.nodeName of that NodeClaim is "lie-victim"`, "broken-lie-uid": "that NodeClaim has the uid"} {
		require.Eventually(t, func() bool { return progressOf(t, name).RemovalHeld != nil }, settles, 100*time.Millisecond, name)
		assert.Equal(t, verify.BrakeRefused, progressOf(t, name).RemovalHeld.Reason)
		assert.Contains(t, progressOf(t, name).RemovalHeld.Message, says)
		nodekeep.WaitEvent(t, name, "RemovalHeld")
	}
	for _, one := range []*unstructured.Unstructured{victim, again} {
		_, err := admin(t).Resource(nodeClaims).Get(t.Context(), one.GetName(), metav1.GetOptions{})
		require.NoError(t, err)
	}
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
	require.Eventually(t, func() bool {
		left := remaining()
		for _, name := range left {
			if held := progressOf(t, name).RemovalHeld; held == nil || held.Reason != verify.BrakeCooldown && held.Reason != verify.BrakeBudget {
				return false
			}
		}
		return len(left) < 4
	}, settles, 100*time.Millisecond)
	require.NoError(t, second.Process.Stop())
	assert.Len(t, remaining(), 3, "the cooldown is an hour")
	assert.Len(t, ledger(t).Removals, 1)
}

// Brakes are read off the API server, so a process that has just started knows them.
func TestAnExhaustedBudgetHoldsAfterARestart(t *testing.T) {
	toCheck(t, "good-budget", verify.RemoveNode, true, nil)
	entry := verify.Removal{Node: "before", UID: "before", Kind: verify.RemoveNode, Profile: "node", Time: time.Now().UTC(), Done: true}
	begin(t, "--leader-elect=false")
	require.NoError(t, nodekeep.KillVerify())
	_ = nodekeep.Admin.CoreV1().ConfigMaps(verify.Namespace).Delete(t.Context(), verify.LedgerMap, metav1.DeleteOptions{})
	_, err := nodekeep.Admin.CoreV1().ConfigMaps(verify.Namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: verify.LedgerMap}, Data: map[string]string{verify.LedgerKey: verify.Ledger{Removals: []verify.Removal{entry}}.String()},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	toCheck(t, "broken-budget", verify.RemoveNode, false, nil)
	require.NoError(t, nodekeep.StartVerify(context.Background()))
	require.Eventually(t, func() bool {
		held := progressOf(t, "broken-budget").RemovalHeld
		return held != nil && held.Reason == verify.BrakeBudget
	}, settles, 100*time.Millisecond)
	assert.InDelta(t, 1, harness.Series(t, nodekeep.MetricsURL("verify"), `nodekeep_verify_brake_open{reason="Budget"}`), 0)
	nodekeep.WaitEvent(t, "broken-budget", "RemovalHeld")
	nodekeep.Node(t, "broken-budget")
}
