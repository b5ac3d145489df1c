package view

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/plan"
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

// nodeToVerify returns a Ready Node of ten minutes.
func nodeToVerify(labels map[string]string, taints ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "U1", Labels: labels, CreationTimestamp: metav1.NewTime(noon.Add(-10 * time.Minute))}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, text := range taints {
		key, effect, _ := strings.Cut(text, ":")
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffect(effect)})
	}
	return node
}

// worker returns a worker Pod of the Node of [nodeToVerify].
func worker(state corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "check-1", UID: "P1", CreationTimestamp: metav1.NewTime(noon.Add(-time.Second)), OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", UID: "U1"}},
		},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: verify.Worker, Image: "example.com/nodekeep:1"}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: verify.Worker, State: state}}},
	}
}

// single returns all worker Pods of a Node: one, or none.
func single(worker *corev1.Pod) []*corev1.Pod {
	if worker == nil {
		return []*corev1.Pod{}
	}
	return []*corev1.Pod{worker}
}

func annotated(node *corev1.Node, progress verify.Progress) *corev1.Node {
	node.Annotations = map[string]string{verify.Annotation: progress.String()}
	return node
}

func TestWhereTheVerificationOfANodeStands(t *testing.T) {
	const byDefault = "nodekeep.dev/unverified:NoSchedule"
	p := statetest.Load(t, verifying)
	rest, _ := p.Verify().Match(nil)
	withGPU := func(node *corev1.Node) *corev1.Node {
		node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		return node
	}
	failed := verify.Progress{Attempts: 2, Profile: "rest", Hash: rest.Hash, Last: &verify.Last{Result: verify.VerdictFailed, Check: "api", Reason: "Timeout", Message: "no answer", Time: noon.Add(-time.Second)}}
	earlier := failed
	earlier.Last = &verify.Last{Result: verify.VerdictFailed, Check: "api", Time: noon.Add(-20 * time.Second)}
	deleting := worker(corev1.ContainerState{})
	deleting.DeletionTimestamp = new(metav1.NewTime(noon))
	for name, row := range map[string]struct {
		node   *corev1.Node
		worker *corev1.Pod
		ready  map[string]bool
		state  verify.State
		reason string
	}{
		"no taint and never checked":            {node: nodeToVerify(nil), state: verify.StateOpen},
		"no taint, and the checks passed":       {node: annotated(nodeToVerify(nil), verify.Progress{Round: 1, Last: &verify.Last{Result: verify.VerdictPassed}}), state: StateVerified},
		"no taint, and an operator released it": {node: annotated(nodeToVerify(nil), verify.Progress{}.ReleasedBy("by me", noon)), state: verify.StateOpen},
		"the label alone says nothing":          {node: nodeToVerify(map[string]string{verify.Label: "true"}, byDefault), state: verify.StateWaiting, reason: "open before its taint was added"},
		"the gate is still on it":               {node: nodeToVerify(nil, byDefault, "nodekeep.dev/restoring:NoSchedule"), state: verify.StateWaiting, reason: "nodekeep.dev/restoring"},
		"it waits for a resource":               {node: nodeToVerify(map[string]string{"gpu": "yes"}, "example.com/new:NoExecute"), state: verify.StateWaiting, reason: "does not report nvidia.com/gpu, and must have 1"},
		"it waits for a DaemonSet":              {node: withGPU(nodeToVerify(map[string]string{"gpu": "yes"}, "example.com/new:NoExecute")), ready: map[string]bool{}, state: verify.StateWaiting, reason: "no Pod of DaemonSet kube-system/cni is Ready"},
		"DaemonSets are not known":              {node: withGPU(nodeToVerify(map[string]string{"gpu": "yes"}, "example.com/new:NoExecute")), state: verify.StateWaiting, reason: "attempt 1 is due"},
		"a worker Pod runs":                     {node: nodeToVerify(nil, byDefault), worker: worker(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon)}}), state: verify.StateChecking, reason: "the worker Pod runs the checks"},
		"its image cannot be pulled": {
			node: nodeToVerify(nil, byDefault), worker: worker(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"}}),
			state: verify.StateChecking, reason: "the worker Pod has not started: example.com/nodekeep:1 of container nodekeep-check: ImagePullBackOff: Back-off pulling image",
		},
		"the controller says that it cannot open the Node": {
			node: func() *corev1.Node {
				n := nodeToVerify(nil, byDefault)
				n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: verify.Condition, Reason: string(verify.CauseRefused), Message: "the controller cannot go on: forbidden"})
				return n
			}(), worker: worker(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: `{"v":1,"results":[{"check":"api","required":true,"outcome":"passed"}]}`}}),
			state: verify.StateWaiting, reason: "the controller cannot go on: forbidden",
		},
		"between two attempts, the worker Pod of the last one is there":        {node: annotated(nodeToVerify(nil, byDefault), failed), worker: worker(corev1.ContainerState{}), state: verify.StateRetrying, reason: "a required check failed: api (Timeout): no answer"},
		"the next attempt is due, and the worker Pod of the last one is there": {node: annotated(nodeToVerify(nil, byDefault), earlier), worker: deleting, state: verify.StateRetrying, reason: "an old worker Pod is on the Node: check-1; it is deleted first"},
		"an attempt was asked for, and a worker Pod from before is there":      {node: annotated(nodeToVerify(nil, byDefault), verify.Progress{Hash: rest.Hash}.RestartClosed(noon)), worker: worker(corev1.ContainerState{}), state: verify.StateWaiting, reason: "an old worker Pod is on the Node: check-1; it is deleted first"},
		"the attempt that was asked for runs":                                  {node: annotated(nodeToVerify(nil, byDefault), verify.Progress{Hash: rest.Hash}.RestartClosed(noon.Add(-time.Second/2))), worker: worker(corev1.ContainerState{}), state: verify.StateChecking, reason: "the worker Pod has not started"},
		"released, and its worker Pod is there":                                {node: annotated(nodeToVerify(nil), verify.Progress{}.ReleasedBy("by me", noon)), worker: worker(corev1.ContainerState{}), state: verify.StateOpen, reason: "the Node was opened without passed checks: by me"},
		"open, and no profile selects it":                                      {node: nodeToVerify(map[string]string{"control": ""}), state: verify.StateOpen, reason: "the Node has not passed its checks; no profile selects the Node"},
		"attempts did not pass":                                                {node: annotated(nodeToVerify(nil, byDefault), failed), state: verify.StateRetrying, reason: "a required check failed: api (Timeout): no answer"},
		"no profile selects it":                                                {node: nodeToVerify(map[string]string{"control": ""}, byDefault), state: verify.StateWaiting, reason: "no profile selects"},
		"the taint of another profile holds it":                                {node: nodeToVerify(nil, "example.com/new:NoSchedule"), state: verify.StateWaiting, reason: "attempt 1 is due"},
		"an annotation that is garbage is ignored": {node: func() *corev1.Node {
			n := nodeToVerify(nil, byDefault)
			n.Annotations = map[string]string{verify.Annotation: "{"}
			return n
		}(), state: verify.StateWaiting, reason: "attempt 1 is due"},
	} {
		t.Run(name, func(t *testing.T) {
			v := VerificationOf(row.node, single(row.worker), row.ready, p, noon)
			assert.Equal(t, row.state, v.State)
			assert.Contains(t, v.Reason, row.reason)
			assert.Equal(t, len(row.node.Spec.Taints) > 0, v.Closed())
			assert.Equal(t, v.Closed(), UnverifiedText(row.node, p) != "")
		})
	}
}

func TestTheDocumentOfANodeThatIsDeletedHasItsLastReport(t *testing.T) {
	shown := NodeVerification{Node: "a", Report: &verify.SavedReport{
		Node: "a", UID: "U0", Profile: "rest", Attempt: 2, Time: noon.Add(-time.Hour), Result: verify.VerdictFailed, Check: "dns", Message: "no answer",
		Results: []verify.Result{{Check: "dns", Outcome: verify.Failed, Required: true, Reason: "Timeout", Message: "no answer", Millis: 1500, Tries: 3}, {Check: "api", Outcome: verify.Passed, Required: true, Millis: 20}},
	}}
	d := shown.Document(noon)
	assert.Equal(t, []Fact{{"Node", "a"}, {"State", "the Node is deleted"}, {"Last report", "failed 60m ago, attempt 2, profile rest: check dns: no answer"}}, d.Facts)
	require.Len(t, d.Tables, 1)
	assert.Equal(t, []any{"dns", "failed", "yes", "Timeout", "no answer", "1.5s", 3}, d.Tables[0].Rows[0].Cells)

	v := VerificationOf(nodeToVerify(nil, "nodekeep.dev/unverified:NoSchedule"), nil, nil, statetest.Load(t, verifying), noon)
	shown.UID, shown.Verification = "U1", &v
	assert.Contains(t, shown.Document(noon).Facts, Fact{"Last report", "failed 60m ago, attempt 2, profile rest, of an earlier Node of this name: check dns: no answer"})
	assert.Contains(t, shown.Document(noon).Facts, Fact{"Deadline", "in 4m; the taint stays, and attempts go on"})
	assert.Contains(t, shown.Document(noon.Add(time.Hour)).Facts, Fact{"Deadline", "passed 56m ago; the taint stays, and attempts go on"})
}

// Whatever order the API server lists them in.
func TestOfSeveralWorkerPodsEachIsNamed(t *testing.T) {
	const byDefault = "nodekeep.dev/unverified:NoSchedule"
	p := statetest.Load(t, verifying)
	rest, _ := p.Verify().Match(nil)
	began := metav1.NewTime(noon)
	pod := func(name string, age time.Duration, phase corev1.PodPhase) *corev1.Pod {
		item := worker(corev1.ContainerState{})
		if phase == corev1.PodRunning {
			item = worker(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}})
		}
		item.Name, item.UID, item.CreationTimestamp, item.Status.Phase = name, types.UID(name), metav1.NewTime(noon.Add(-age)), phase
		return item
	}
	for name, row := range map[string]struct {
		progress verify.Progress
		workers  []*corev1.Pod
		names    []string
		reason   string
	}{
		"another controller has taken over": {verify.Progress{Hash: rest.Hash}, []*corev1.Pod{pod("check-a", time.Minute, corev1.PodRunning), pod("check-b", time.Second, corev1.PodPending)}, []string{"check-b", "check-a"}, "the worker Pod has not started"},
		"the newest has ended":              {verify.Progress{Hash: rest.Hash}, []*corev1.Pod{pod("check-a", time.Second, corev1.PodFailed), pod("check-b", time.Minute, corev1.PodRunning)}, []string{"check-b", "check-a"}, "the worker Pod runs the checks"},
		"one is of an attempt before":       {verify.Progress{Hash: rest.Hash}.RestartClosed(noon.Add(-30 * time.Second)), []*corev1.Pod{pod("check-a", time.Minute, corev1.PodRunning), pod("check-b", time.Second, corev1.PodPending)}, []string{"check-b"}, "the worker Pod has not started"},
		"all are of attempts before":        {verify.Progress{Hash: rest.Hash}.RestartClosed(noon), []*corev1.Pod{pod("check-a", time.Minute, corev1.PodRunning), pod("check-b", 2*time.Second, corev1.PodPending)}, nil, "an old worker Pod is on the Node: check-b, check-a"},
	} {
		t.Run(name, func(t *testing.T) {
			node := annotated(nodeToVerify(nil, byDefault), row.progress)
			for range 2 {
				v := VerificationOf(node, row.workers, nil, p, noon)
				assert.Equal(t, row.names, v.Workers)
				assert.Contains(t, v.Reason, row.reason)
				run, err := RecheckPlanOf(node, row.workers, p, noon)
				require.NoError(t, err)
				assert.Contains(t, run.Done, "once worker Pods check-b, check-a, of attempts before, are deleted")
				if len(row.names) > 1 {
					assert.Contains(t, run.Summary, "and worker Pods check-b, check-a are replaced")
				}
				slices.Reverse(row.workers)
			}
		})
	}
	run, err := RecheckPlanOf(nodeToVerify(nil, byDefault), nil, p, noon)
	require.NoError(t, err)
	assert.Equal(t, "attempts begin anew; the controller starts an attempt", run.Done, "worker Pods are not known, so it is not said when")
}

func TestWhatIsAskedBeforeANodeIsCheckedAgain(t *testing.T) {
	p := statetest.Load(t, verifying)
	node := nodeToVerify(map[string]string{"gpu": "yes"})
	run, err := RecheckPlanOf(node, nil, p, noon)
	require.NoError(t, err)
	assert.Equal(t, "example.com/new:NoExecute", run.Change.WithCause(plan.CauseDerivedTaint).Taints(false)[0].ToString())
	assert.Contains(t, run.Summary, "evicts the Pods")
	run, err = RecheckPlanOf(nodeToVerify(nil), nil, p, noon)
	require.NoError(t, err)
	assert.Contains(t, run.Summary, "Pods that run on it stay")
	run, err = RecheckPlanOf(nodeToVerify(nil, "nodekeep.dev/unverified:NoSchedule"), nil, p, noon)
	require.NoError(t, err)
	assert.Contains(t, run.Summary, `Node "a" is closed, and 0 attempts did not pass. Attempts begin anew.`)
	run, err = RecheckPlanOf(nodeToVerify(nil, "nodekeep.dev/unverified:NoSchedule"), single(worker(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon)}})), p, noon)
	require.NoError(t, err)
	assert.Contains(t, run.Summary, "Attempts begin anew, and worker Pod check-1 is replaced.")
	assert.Empty(t, run.Change.WithCause(plan.CauseDerivedTaint))

}

func TestAVerifiedNodeShowsTheGenerationOfThePolicyThatItPassedUnder(t *testing.T) {
	p := statetest.Load(t, verifying)
	rest, _ := p.Verify().Match(nil)
	passed := verify.Progress{Round: 1, Profile: "rest", Hash: rest.Hash, Generation: 4, Last: &verify.Last{Result: verify.VerdictPassed, Time: noon}}
	shows := func(change func(*verify.Progress)) string {
		progress := passed
		change(&progress)
		v := VerificationOf(annotated(nodeToVerify(nil), progress), nil, nil, p, noon)
		for _, fact := range (NodeVerification{Node: "a", Verification: &v}).Document(noon).Facts {
			if fact.Name == "Passed" {
				return fact.Value
			}
		}
		return ""
	}
	assert.Equal(t, "profile rest as of generation 4 of the policy", shows(func(*verify.Progress) {}))
	assert.Equal(t, "profile rest as of generation 4 of the policy; the policy asks something else now", shows(func(p *verify.Progress) { p.Hash = "other" }))
	assert.Empty(t, shows(func(p *verify.Progress) { p.Generation = 0 }), "it is not known")
	assert.Empty(t, shows(func(p *verify.Progress) { p.Generation = -1 }))
	assert.Empty(t, shows(func(p *verify.Progress) { p.Last.Result = verify.VerdictReleased }))
}

// What the command says about its Node must be what the controller does next.
func TestARequestForACheckSaysWhatHappensThen(t *testing.T) {
	const byDefault, o = "nodekeep.dev/unverified:NoSchedule", "example.com/new:NoExecute"
	enforces, reports := statetest.Load(t, verifying), statetest.Load(t, reporting)
	waits := statetest.Load(t, "verify: {profiles: [{name: warm, wait: {conditions: {Warm: \"True\"}}}]}\n")
	gpu := map[string]string{"gpu": "yes"}
	rest, _ := enforces.Verify().Match(nil)
	stuck := verify.Progress{Attempts: 5, Failed: 5, Hash: rest.Hash, Last: &verify.Last{Result: verify.VerdictFailed, Check: "api", Reason: "Timeout", Time: noon.Add(-time.Second)}}
	change := func(node *corev1.Node, change func(*corev1.Node)) *corev1.Node { change(node); return node }
	notReady := func(node *corev1.Node) { node.Status.Conditions[0].Status = corev1.ConditionFalse }
	for name, row := range map[string]struct {
		policy policy.Policy
		node   *corev1.Node
		worker *corev1.Pod
		done   string
		err    string
		writes bool
	}{
		"it is open":                      {policy: enforces, node: nodeToVerify(nil), writes: true, done: "taint " + byDefault + " added; the controller starts an attempt now"},
		"it is stuck":                     {policy: enforces, node: annotated(nodeToVerify(nil, byDefault), stuck), writes: true, done: "attempts begin anew; the controller starts an attempt now"},
		"it asks in the annotation, too":  {policy: enforces, node: change(annotated(nodeToVerify(nil, byDefault), stuck), func(n *corev1.Node) { n.Annotations[verify.RequestAnnotation] = "x" }), writes: true, done: "attempts begin anew; the controller starts an attempt now"},
		"it has the taint of another one": {policy: enforces, node: nodeToVerify(nil, o), writes: true, done: "attempts begin anew; the controller starts an attempt now"},
		"it is not Ready":                 {policy: enforces, node: change(nodeToVerify(nil, byDefault), notReady), writes: true, done: "attempts begin anew; no attempt starts yet: the Node is not Ready; `kubectl describe node a` shows what its kubelet reports"},
		"it is open, and not Ready":       {policy: enforces, node: change(nodeToVerify(nil), notReady), writes: true, done: "taint " + byDefault + " added; no attempt starts yet: the Node is not Ready; `kubectl describe node a` shows what its kubelet reports"},
		"it is behind the gate":           {policy: enforces, node: nodeToVerify(nil, "nodekeep.dev/restoring:NoSchedule"), writes: true, done: "taint " + byDefault + " added; no attempt starts yet: the taint nodekeep.dev/restoring is on the Node; the component that added it must remove it first"},
		"DaemonSets are waited for": {policy: enforces, node: change(nodeToVerify(gpu), func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		}), writes: true, done: "taint " + o + " added; the controller starts an attempt once the DaemonSets that profile gpu waits for are Ready on the Node"},
		"a resource is waited for":          {policy: enforces, node: nodeToVerify(gpu), writes: true, done: "taint " + o + " added; no attempt starts yet: the profile waits for a resource: the Node does not report nvidia.com/gpu, and must have 1; look at the device plugin, or change `wait.allocatable`"},
		"its deadline is over, of the Node": {policy: enforces, node: change(nodeToVerify(gpu, o), func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour)) }), writes: true, done: "attempts begin anew; no attempt starts yet: the profile waits for a resource"},
		"a condition is waited for":         {policy: waits, node: nodeToVerify(nil, byDefault), writes: true, done: "attempts begin anew; no attempt starts yet: the profile waits for a condition: the Node has no condition Warm; look at the agent that sets the condition, or change `wait.conditions`"},
		"there are no checks, and it holds": {policy: waits, node: change(nodeToVerify(nil, byDefault), func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Warm", Status: corev1.ConditionTrue})
		}), writes: true, done: "attempts begin anew; the profile has no checks, so the controller opens the Node now"},
		"the API server refuses each step": {policy: enforces, node: change(annotated(nodeToVerify(nil, byDefault), stuck), func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: verify.Condition, Status: corev1.ConditionFalse, Reason: string(verify.CauseRefused), Message: "pods is forbidden"})
		}), writes: true, done: "attempts begin anew; the controller starts an attempt now. Its last step failed: pods is forbidden"},
		"a worker Pod is still there":           {policy: enforces, node: annotated(nodeToVerify(nil, byDefault), stuck), worker: worker(corev1.ContainerState{}), writes: true, done: "attempts begin anew; the controller starts an attempt once worker Pod check-1, of an attempt before, is deleted"},
		"it reports, and a worker Pod is there": {policy: reports, node: nodeToVerify(gpu), worker: worker(corev1.ContainerState{}), writes: true, done: "it stays open; the controller starts an attempt once worker Pod check-1, of an attempt before, is deleted"},
		"its profile only reports":              {policy: reports, node: nodeToVerify(gpu), writes: true, done: "it stays open; the controller starts an attempt now"},
		"its profile reports, not Ready":        {policy: reports, node: change(nodeToVerify(gpu), notReady), writes: true, done: "it stays open; no attempt starts yet: the Node takes workloads, and is to be checked: the Node is not Ready"},
		"its profile reports, and it failed":    {policy: reports, node: annotated(nodeToVerify(gpu), verify.Progress{Attempts: 3, Hash: reports.Verify().All()[0].Hash, Reports: true, Last: stuck.Last}), writes: true, done: "it stays open; the controller starts an attempt now"},
		"its profile reports, with a taint":     {policy: reports, node: nodeToVerify(gpu, byDefault), done: "profile gpu only reports; the controller removes nodekeep.dev/unverified:NoSchedule, and then checks the Node"},
		"no profile selects it":                 {policy: enforces, node: nodeToVerify(map[string]string{"control": ""}), err: `no profile of the policy selects node "a" by its labels`},
		"no profile selects it, with a taint":   {policy: enforces, node: nodeToVerify(map[string]string{"control": ""}, byDefault), err: "so the controller removes"},
		"no profile selects it yet":             {policy: enforces, node: nodeToVerify(map[string]string{"control": ""}, "nodekeep.dev/restoring:NoSchedule"), err: "which may still change: it has the taint nodekeep.dev/restoring"},
		"no profile exists":                     {policy: policy.Default(), node: nodeToVerify(nil), err: "no profiles"},
		"it is being deleted":                   {policy: enforces, node: change(nodeToVerify(nil), func(n *corev1.Node) { n.DeletionTimestamp = new(metav1.NewTime(noon)) }), err: `node "a" is being deleted`},
	} {
		t.Run(name, func(t *testing.T) {
			run, err := RecheckPlanOf(row.node, single(row.worker), row.policy, noon)
			if row.err != "" {
				require.ErrorContains(t, err, "nothing was changed: ")
				require.ErrorContains(t, err, row.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, row.writes, run.Writes())
			assert.Contains(t, run.Done, row.done)
		})
	}
}

const reporting = `verify:
  profiles:
  - name: gpu
    nodeSelector: gpu=yes
    mode: report
    checks: [{name: dns, dns: {names: [a]}}]
`

func TestWhereAnOpenNodeStandsWhoseProfileOnlyReports(t *testing.T) {
	p := statetest.Load(t, reporting)
	last := func(result verify.Verdict, attempts int) *corev1.Node {
		return annotated(nodeToVerify(map[string]string{"gpu": "yes"}), verify.Progress{
			Attempts: attempts, Hash: p.Verify().All()[0].Hash, Reports: true, Last: &verify.Last{Result: result, Check: "dns", Reason: "Timeout", Message: "no answer", Time: noon.Add(-time.Minute)},
		})
	}
	for name, row := range map[string]struct {
		node   *corev1.Node
		state  verify.State
		reason string
		fails  bool
		next   string
	}{
		"never checked": {node: nodeToVerify(map[string]string{"gpu": "yes"}), state: verify.StateOpen, reason: "the Node takes workloads, and is to be checked: attempt 1 is due"},
		"passed":        {node: last(verify.VerdictPassed, 0), state: StateVerified, reason: "the Node was verified", next: "in 59m"},
		"failed":        {node: last(verify.VerdictFailed, 9), state: verify.StateFailing, reason: "a required check failed: dns (Timeout): no answer", fails: true, next: "in 4m"},
	} {
		t.Run(name, func(t *testing.T) {
			v := VerificationOf(row.node, nil, nil, p, noon)
			assert.Equal(t, row.state, v.State)
			assert.Contains(t, v.Reason, row.reason)
			assert.Equal(t, row.fails, v.Fails())
			assert.False(t, v.Waits())
			assert.Empty(t, UnverifiedText(row.node, p))
			facts := NodeVerification{Verification: &v}.Document(noon).Facts
			assert.Contains(t, facts, Fact{"Mode", "report: the Node takes workloads whatever its checks say"})
			if row.next != "" {
				assert.Contains(t, facts, Fact{"Next check", row.next})
			}
		})
	}
	run, err := RecheckPlanOf(nodeToVerify(map[string]string{"gpu": "yes"}), nil, p, noon)
	require.NoError(t, err)
	assert.Contains(t, run.Summary, "takes workloads meanwhile, and gets no taint")
	assert.Empty(t, run.Change.WithCause(plan.CauseDerivedTaint))
}

func TestTheListNamesTheFailedCheckAndWhenTheNextAttemptIs(t *testing.T) {
	p := statetest.Load(t, verifying)
	rest, _ := p.Verify().Match(nil)
	tried := func(attempts int, age time.Duration) *corev1.Node {
		return annotated(nodeToVerify(nil, "nodekeep.dev/unverified:NoSchedule"), verify.Progress{
			Attempts: attempts, Profile: "rest", Hash: rest.Hash, Last: &verify.Last{Result: verify.VerdictFailed, Check: "api", Time: noon.Add(-age)},
		})
	}
	notReady := func(node *corev1.Node) *corev1.Node {
		node.Status.Conditions[0].Status = corev1.ConditionFalse
		return node
	}
	waits := func(node *corev1.Node) *corev1.Node { // as the controller shows
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: verify.Condition, Status: corev1.ConditionFalse, Reason: string(verify.CauseDaemonSet), Message: "no Pod of DaemonSet kube-system/cni is Ready",
		})
		return node
	}
	for name, row := range map[string]struct {
		node        *corev1.Node
		worker      *corev1.Pod
		check, next any
	}{
		"not tried yet":                        {nodeToVerify(nil, "nodekeep.dev/unverified:NoSchedule"), nil, "-", "due"},
		"not tried, not Ready":                 {notReady(nodeToVerify(nil, "nodekeep.dev/unverified:NoSchedule")), nil, "-", "-"},
		"tried, due and not Ready":             {notReady(tried(1, time.Hour)), nil, "api", "-"},
		"tried, and a DaemonSet is waited for": {waits(tried(5, time.Hour)), nil, "api", "-"},
		"the worker Pod of before":             {tried(2, time.Second), worker(corev1.ContainerState{}), "api", "in 19s"},
		"after the first attempt":              {tried(1, time.Second), nil, "api", "in 9s"},
		"the pause doubles":                    {tried(2, time.Second), nil, "api", "in 19s"},
		"a stuck Node: maxBackoff":             {tried(5, time.Second), nil, "api", "in 4m59s"},
		"the pause is over":                    {tried(5, time.Hour), nil, "api", "due"},
		"the next attempt is on":               {tried(2, time.Hour), worker(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon)}}), "api", "-"},
		"an open Node that passed":             {annotated(nodeToVerify(nil), verify.Progress{Round: 1, Last: &verify.Last{Result: verify.VerdictPassed, Check: "api"}}), nil, "-", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			v := VerificationOf(row.node, single(row.worker), nil, p, noon)
			table := VerificationList{Items: []Verification{v}}.Document(noon).Tables[0]
			assert.Equal(t, "Check", table.ColumnDefinitions[5].Name)
			assert.Equal(t, "Next", table.ColumnDefinitions[6].Name)
			assert.Equal(t, []any{row.check, row.next}, table.Rows[0].Cells[5:7])
		})
	}
}

func TestTheLastResultIsSaidInPlainWords(t *testing.T) {
	for want, last := range map[string]verify.Last{
		"failed 60s ago: check api (Timeout): no answer":                                {Result: verify.VerdictFailed, Check: "api", Reason: "Timeout", Message: "no answer"},
		"opened without checks 60s ago: no profile selects the Node":                    {Result: verify.VerdictNotSelected, Message: "no profile selects the Node"},
		"no longer checked 60s ago: the profile that reported selects the Node no more": {Result: verify.VerdictNotSelected, Message: verify.ReportedBefore},
		"opened 60s ago: the taint was removed before the checks passed":                {Result: verify.VerdictRemoved, Message: "the taint was removed before the checks passed"},
		"no result 60s ago (WorkerHung): x":                                             {Result: verify.VerdictInconclusive, Reason: "WorkerHung", Message: "x"},
		"failed as on verified Nodes 60s ago: check api":                                {Result: verify.VerdictShared, Check: "api"},
		"not checked after a reboot 60s ago: too many Nodes are not Ready at once":      {Result: verify.VerdictRebooted, Message: "too many Nodes are not Ready at once"},
	} {
		last.Time = noon.Add(-time.Minute)
		assert.Equal(t, want, lastText(&last, noon))
	}
}

// What the next step will write is not so yet: the controller may be down.
func TestWhatANodeHasTriedIsWhatItsAnnotationSays(t *testing.T) {
	p := statetest.Load(t, verifying)
	rest, _ := p.Verify().Match(nil)
	tried := verify.Progress{Attempts: 2, Hash: rest.Hash, Last: &verify.Last{Result: verify.VerdictFailed, Check: "api", Time: noon.Add(-time.Hour)}}
	node := annotated(nodeToVerify(nil, "nodekeep.dev/unverified:NoSchedule"), tried)
	v := VerificationOf(node, nil, nil, p.WithEmergency(true), noon)
	assert.Equal(t, verify.CauseEmergency, v.Cause)
	assert.Equal(t, verify.VerdictFailed, v.Last.Result)
	assert.Equal(t, 2, v.Attempts)
	assert.Zero(t, v.Next, "no attempt follows")
}
