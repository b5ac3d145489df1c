package view

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/verify"
)

const verifying = `verify:
  profiles:
  - name: gpu
    nodeSelector: gpu=yes
    taint: example.com/new:NoExecute
    wait: {allocatable: {nvidia.com/gpu: 1}, daemonSets: [kube-system/cni]}
    checks: [{name: dns, dns: {names: [a]}}]
    attempts: {max: 2}
    onTimeout: release
  - name: rest
    nodeSelector: "!control"
    checks: [{name: api, api: {}}]
`

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// nodeToVerify is a Ready Node of ten minutes.
func nodeToVerify(labels map[string]string, taints ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "U1", Labels: labels, CreationTimestamp: metav1.NewTime(noon.Add(-10 * time.Minute))}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, text := range taints {
		key, effect, _ := strings.Cut(text, ":")
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffect(effect)})
	}
	return node
}

func annotated(node *corev1.Node, progress verify.Progress) *corev1.Node {
	node.Annotations = map[string]string{verify.Annotation: progress.String()}
	return node
}

func TestWhereTheVerificationOfANodeStands(t *testing.T) {
	const byDefault = "nodekeep.dev/unverified:NoSchedule"
	p := load(t, verifying)
	rest, _ := p.Verify().For(nil)
	withGPU := func(node *corev1.Node) *corev1.Node {
		node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		return node
	}
	failed := verify.Progress{Attempts: 2, Profile: "rest", Hash: rest.Hash, Last: &verify.Last{Result: verify.VerdictFailed, Check: "api", Reason: "Timeout", Message: "no answer", Time: noon.Add(-time.Second)}}
	for name, one := range map[string]struct {
		node   *corev1.Node
		worker *corev1.Pod
		ready  map[string]bool
		state  verify.State
		why    string
	}{
		"no taint and never checked":            {node: nodeToVerify(nil), state: verify.StateOpen},
		"no taint, and the checks passed":       {node: annotated(nodeToVerify(nil), verify.Progress{Round: 1, Last: &verify.Last{Result: verify.VerdictPassed}}), state: StateVerified},
		"no taint, and an operator released it": {node: annotated(nodeToVerify(nil), verify.Progress{}.ReleasedBy("by me", noon)), state: verify.StateOpen},
		"the label alone says nothing":          {node: nodeToVerify(map[string]string{verify.Label: "true"}, byDefault), state: verify.StateWaiting, why: "open before its taint was added"},
		"the gate is still on it":               {node: nodeToVerify(nil, byDefault, "nodekeep.dev/restoring:NoSchedule"), state: verify.StateWaiting, why: "nodekeep.dev/restoring"},
		"it waits for a resource":               {node: nodeToVerify(map[string]string{"gpu": "yes"}, "example.com/new:NoExecute"), state: verify.StateWaiting, why: "at least 1 of nvidia.com/gpu"},
		"it waits for a DaemonSet":              {node: withGPU(nodeToVerify(map[string]string{"gpu": "yes"}, "example.com/new:NoExecute")), ready: map[string]bool{}, state: verify.StateWaiting, why: "DaemonSet kube-system/cni is not Ready"},
		"DaemonSets are not known":              {node: withGPU(nodeToVerify(map[string]string{"gpu": "yes"}, "example.com/new:NoExecute")), state: verify.StateWaiting, why: "attempt 1 is due"},
		"a worker Pod runs":                     {node: nodeToVerify(nil, byDefault), worker: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "check-1"}, Status: corev1.PodStatus{Phase: corev1.PodPending}}, state: verify.StateChecking, why: "the worker Pod is pending"},
		"attempts did not pass":                 {node: annotated(nodeToVerify(nil, byDefault), failed), state: verify.StateRetrying, why: "attempt 2 was failed"},
		"no profile selects it":                 {node: nodeToVerify(map[string]string{"control": ""}, byDefault), state: verify.StateWaiting, why: "no profile selects"},
		"the taint of another profile holds it": {node: nodeToVerify(nil, "example.com/new:NoSchedule"), state: verify.StateWaiting, why: "attempt 1 is due"},
		"an annotation that is garbage is ignored": {node: func() *corev1.Node {
			n := nodeToVerify(nil, byDefault)
			n.Annotations = map[string]string{verify.Annotation: "{"}
			return n
		}(), state: verify.StateWaiting, why: "attempt 1 is due"},
	} {
		t.Run(name, func(t *testing.T) {
			v := VerificationOf(one.node, one.worker, one.ready, p, noon)
			assert.Equal(t, one.state, v.State)
			assert.Contains(t, v.Why, one.why)
			assert.Equal(t, len(one.node.Spec.Taints) > 0, v.Closed())
			assert.Equal(t, v.Closed(), NotVerified(one.node, p) != "")
		})
	}
}

func TestTheDocumentOfANodeThatIsDeletedHasItsLastReport(t *testing.T) {
	shown := VerifiedNode{Node: "a", Report: &verify.SavedReport{
		Node: "a", UID: "U0", Profile: "rest", Attempt: 2, Time: noon.Add(-time.Hour), Result: verify.VerdictFailed, Check: "dns", Message: "no answer",
		Results: []verify.Result{{Check: "dns", Outcome: verify.Failed, Required: true, Reason: "Timeout", Message: "no answer", Millis: 1500, Tries: 3}, {Check: "api", Outcome: verify.Passed, Required: true, Millis: 20}},
	}}
	d := shown.Document(noon)
	assert.Equal(t, []Fact{{"Node", "a"}, {"State", "the Node is deleted"}, {"Last report", "failed 60m ago, attempt 2, profile rest: check dns: no answer"}}, d.Facts)
	require.Len(t, d.Tables, 1)
	assert.Equal(t, []any{"dns", "failed", "yes", "Timeout", "no answer", "1.5s", 3}, d.Tables[0].Rows[0].Cells)

	v := VerificationOf(nodeToVerify(nil, "nodekeep.dev/unverified:NoSchedule"), nil, nil, load(t, verifying), noon)
	shown.UID, shown.Verification = "U1", &v
	assert.Contains(t, shown.Document(noon).Facts, Fact{"Last report", "failed 60m ago, attempt 2, profile rest, of an earlier Node of this name: check dns: no answer"})
	assert.Contains(t, shown.Document(noon).Facts, Fact{"Deadline", "in 4m; the taint stays, and attempts go on"})
	assert.Contains(t, shown.Document(noon.Add(time.Hour)).Facts, Fact{"Deadline", "passed 56m ago; the taint stays, and attempts go on"})
}

func TestWhatIsAskedBeforeANodeIsCheckedAgain(t *testing.T) {
	p := load(t, verifying)
	node := nodeToVerify(map[string]string{"gpu": "yes"})
	taint, err := TaintToRun(node, p)
	require.NoError(t, err)
	assert.Equal(t, "example.com/new:NoExecute", taint.ToString())
	assert.Contains(t, RunQuestion(node, taint), "evicts the Pods")
	taint.Effect = corev1.TaintEffectNoSchedule
	assert.Contains(t, RunQuestion(node, taint), "Pods that run on it stay")
	_, err = TaintToRun(nodeToVerify(map[string]string{"control": ""}), p)
	require.ErrorContains(t, err, `no profile of the policy selects node "a"`)
	_, err = TaintToRun(node, policy.Default())
	require.ErrorContains(t, err, "no profiles")

	assert.Contains(t, ReleaseQuestion(Verification{Name: "a"}), "It has not been checked yet.")
	assert.Contains(t, ReleaseQuestion(Verification{Name: "a", Attempts: 2, Last: &verify.Last{}}), "2 attempts did not pass.")
}
