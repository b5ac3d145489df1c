package verify_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"nodekeep.dev/nodekeep/verify"
)

// stood is how a Node comes to stand where a cause says.
type stood struct {
	profile func(*verify.Profile)
	node    func(*verify.Node)
	pod     func(*verify.Pod)
	seen    func(*verify.Observed)
	delay   time.Duration
	stopped bool   // an emergency is declared
	detail  string // a part of what the sentence says of this Node
}

// last returns a Node whose last attempt ended so.
func last(result verify.Verdict, cause verify.Cause, message string) stood {
	return stood{node: func(n *verify.Node) {
		n.Annotation = verify.Progress{Attempts: 1, BootID: "b1", Hash: hashOf, Last: &verify.Last{Result: result, Reason: string(cause), Message: message, Time: born}}.String()
	}, delay: time.Second, detail: message}
}

// ends returns an open Node whose last round ended so.
func ends(result verify.Verdict, message string) stood {
	return stood{node: func(n *verify.Node) {
		n.Taints, n.Annotation = nil, verify.Progress{Round: 1, Last: &verify.Last{Result: result, Message: message, Time: born}}.String()
	}, detail: message}
}

// hashOf stands for the hash of the profile until it is known.
const hashOf = "HASH"

func asksKubelet(p *verify.Profile) {
	p.Checks = append(p.Checks, verify.Check{Name: "kubelet", Kubelet: &verify.Kubelet{}})
}

func reboots(p *verify.Profile) { p.Reverify = verify.OnReboot }

// standings are all causes, and how a Node comes to each.
var standings = map[verify.Cause]stood{
	verify.CauseOtherTaint: {node: func(n *verify.Node) { n.Taints = append(n.Taints, corev1.Taint{Key: gate}) }, detail: gate},
	verify.CauseNotReady:   {node: func(n *verify.Node) { n.Ready = false }},
	verify.CauseCondition: {profile: func(p *verify.Profile) {
		p.Wait.Conditions = map[string]verify.ConditionStatus{"KernelDeadlock": "False"}
	}, node: func(n *verify.Node) {
		n.Conditions = map[string]corev1.ConditionStatus{"KernelDeadlock": corev1.ConditionTrue}
	}, detail: "KernelDeadlock is True, and must be False"},
	verify.CauseDaemonSet: {profile: func(p *verify.Profile) { p.Wait.DaemonSets = []string{"kube-system/cni"} }, detail: "kube-system/cni"},
	verify.CauseResource: {profile: func(p *verify.Profile) {
		p.Wait.Allocatable = map[string]verify.Quantity{"nvidia.com/gpu": "1"}
	}, detail: "the Node does not report nvidia.com/gpu, and must have 1"},
	verify.CauseOldWorker: {pod: func(*verify.Pod) {}, seen: func(o *verify.Observed) { o.Worker.UID = "p0" }, delay: time.Hour, detail: "this process did not create"},
	verify.CauseTaintReturns: {node: func(n *verify.Node) {
		n.Annotation = verify.Progress{Round: 9, Returns: 7, Last: &verify.Last{Result: verify.VerdictPassed, Time: born}}.String()
	}, delay: time.Second, detail: "7 times"},
	verify.CauseRefused: {profile: asksKubelet, pod: ended(corev1.PodSucceeded, 0, passes), seen: func(o *verify.Observed) { o.Refused = "get pods/log: denied" }, detail: "get pods/log: denied"},
	verify.CauseMayReboot: {profile: reboots, node: func(n *verify.Node) {
		n.Ready, n.Taints, n.Annotation = false, nil, verify.Progress{Round: 1, BootID: "b1", OnReboot: true, Last: &verify.Last{Result: verify.VerdictPassed}}.String()
	}, detail: "it is not Ready"},
	verify.CauseDue:        {detail: "attempt 1"},
	verify.CauseOpenBefore: {seen: func(o *verify.Observed) { o.Opened = true }},
	verify.CauseAllPassed:  {pod: ended(corev1.PodSucceeded, 0, passes)},
	verify.CauseDeadline: {profile: func(p *verify.Profile) {
		p.OnTimeout, p.Deadline = verify.Release, "5m"
	}, delay: time.Hour, detail: "5m0s"},
	verify.CauseNotSelected: {node: func(n *verify.Node) { n.Labels = nil }},
	verify.CauseReportsOnly: {profile: onlyReports},
	verify.CauseEmergency:   {stopped: true},
	verify.CauseCheckDue:    {profile: onlyReports, node: func(n *verify.Node) { n.Taints, n.Ready = nil, false }, detail: "the Node is not Ready"},
	verify.CauseUnconfirmed: {profile: onlyReports, node: func(n *verify.Node) {
		n.Taints = nil
		n.Annotation = verify.Progress{Attempts: 1, Failed: 1, BootID: "b1", Hash: hashOf, Reports: true, Last: &verify.Last{
			Result: verify.VerdictFailed, Check: "dns", Reason: "Timeout", Message: "no answer", Time: born, Unconfirmed: true,
		}}.String()
	}, delay: time.Second, detail: "dns (Timeout): no answer"},
	verify.CauseWorkerStarts: {pod: func(p *verify.Pod) {
		p.Containers = []verify.ContainerState{{Name: verify.Worker, Image: "example.com/nodekeep:1", Reason: "ErrImagePull", Message: "not found"}}
	}, delay: time.Second, detail: "example.com/nodekeep:1 of container nodekeep-check: ErrImagePull: not found"},
	verify.CauseWorkerRuns: {pod: func(p *verify.Pod) {
		p.Containers = []verify.ContainerState{{Name: verify.Worker, Started: born.Add(time.Second)}}
	}, delay: 2 * time.Second},
	verify.CauseAsksKubelet: {profile: asksKubelet, pod: func(p *verify.Pod) {
		ended(corev1.PodSucceeded, 0, passes)(p)
		p.Log = verify.Log{Asked: true, Reason: verify.ReasonRefused, Message: "connection refused"}
	}, delay: 3 * time.Second, detail: "connection refused"},
	verify.CauseAsksVerified: {pod: ended(corev1.PodFailed, 1, refuses), seen: func(o *verify.Observed) { o.Control = verify.Control{Able: 1} }, delay: 3 * time.Second},
	verify.CauseChecksFailed: last(verify.VerdictFailed, "Timeout", "no answer"),
	verify.CauseShared:       last(verify.VerdictShared, verify.ReasonShared, "verified Node b fails it, too"),
	verify.CauseImage: {pod: func(p *verify.Pod) {
		p.Containers = []verify.ContainerState{{Name: verify.Worker, Image: "example.com/nodekeep:1", Reason: "ImagePullBackOff"}}
	}, delay: time.Hour, detail: "example.com/nodekeep:1 of container nodekeep-check: ImagePullBackOff"},
	verify.CauseNotStarted: {pod: func(*verify.Pod) {}, delay: time.Hour, detail: "container nodekeep-check: its kubelet does not say why"},
	verify.CauseHung: {pod: func(p *verify.Pod) {
		p.Containers = []verify.ContainerState{{Name: verify.Worker, Started: born.Add(2 * time.Second)}}
	}, delay: time.Hour, detail: "longer than the profile's timeout"},
	verify.CauseNoReport:     {pod: func(p *verify.Pod) { ended(corev1.PodFailed, 137, "")(p); p.Reason = "Evicted" }, detail: "Evicted"},
	verify.CauseBadReport:    {pod: ended(corev1.PodSucceeded, 0, "garbage")},
	verify.CauseWorkerFailed: {pod: ended(corev1.PodFailed, 2, passes), detail: "exit code 2"},
	verify.CauseChecksPassed: ends(verify.VerdictPassed, ""),
	verify.CauseReleased:     ends(verify.VerdictReleased, "by an operator"),
	verify.CauseRebooted:     ends(verify.VerdictRebooted, "an outage"),
	verify.CauseTaintRemoved: ends(verify.VerdictRemoved, ""),
	verify.CauseKeyChanged: {node: func(n *verify.Node) {
		n.Taints[0].Key = "example.com/old"
		n.Annotation = verify.Progress{Attempts: 1, Taint: "example.com/old", Last: &verify.Last{Result: verify.VerdictFailed, Time: born}}.String()
	}, detail: "example.com/old"},
	verify.CauseRecheck: {node: func(n *verify.Node) {
		n.Taints, n.Annotation = nil, verify.Progress{Round: 1, Label: verify.Label, Last: &verify.Last{Result: verify.VerdictPassed, Time: born}}.String()
	}, detail: "the label nodekeep.dev/verified was removed"},
	verify.CauseNotVerified: {node: func(n *verify.Node) { n.Taints = nil }},
}

// plan returns what is planned for the Node of a standing. Its condition says nothing yet.
func (s stood) plan(t *testing.T) (*verify.Node, verify.Action) {
	t.Helper()
	profiles, node := planProfile(t, s.profile), readyNode()
	if s.node != nil {
		s.node(node)
	}
	profile, _ := profiles.Match(map[string]string{"gpu": "yes"})
	profiles.Suspended = s.stopped
	node.Annotation = strings.Replace(node.Annotation, hashOf, profile.Hash, 1)
	seen := verify.Observed{Node: node}
	if s.pod != nil {
		pod := workerPod(node, profiles, s.pod)
		seen.Pods, seen.Worker = []verify.Pod{pod}, ownOf(pod)
	}
	if s.seen != nil {
		s.seen(&seen)
	}
	instant := born.Add(max(s.delay, 5*time.Second))
	action := verify.Plan(seen, profiles, modelCluster, instant)
	if !action.Acts() { // it has waited for long
		seen.Waits = verify.Waits{Cause: action.Diagnosis.Cause, Start: instant.Add(-time.Hour)}
		action = verify.Plan(seen, profiles, modelCluster, instant)
	}
	return node, action
}

func TestEachCauseHasASentenceWithTheNextStepAndANodeCanStandThere(t *testing.T) {
	var known []verify.Cause
	for _, row := range verify.Causes() {
		assert.NotContains(t, known, row.Cause, "a cause has one row")
		known = append(known, row.Cause)
		t.Run(string(row.Cause), func(t *testing.T) {
			stand, ok := standings[row.Cause]
			require.True(t, ok, "no Node of this test stands there")
			node, action := stand.plan(t)
			diagnosis := action.Diagnosis
			require.Equal(t, row.Cause, diagnosis.Cause, diagnosis.String())
			sentence := diagnosis.Sentence(node.Name)
			assert.Contains(t, sentence, stand.detail)
			assert.NotContains(t, sentence, "NODE")
			assert.NotContains(t, sentence, "%")
			assert.NotContains(t, sentence, "nothing more is known")
			if row.Cause != verify.CauseChecksPassed {
				assert.NotEmpty(t, row.Next)
				assert.Contains(t, sentence, "; ")
			}
			if !action.Acts() && action.State != "" {
				assert.Contains(t, row.States, action.State)
			}
			if row.Lasts {
				require.Equal(t, verify.DoShow, action.Operation, "what lasts is shown")
			}
			if action.Operation == verify.DoShow && row.Cause != verify.CauseRecheck { // until then, the Node is verified
				assert.Equal(t, verify.Projection{Status: row.Status, Reason: string(row.Cause), Message: sentence}, action.Show)
			}
		})
	}
	for cause := range standings {
		assert.Contains(t, known, cause)
	}
}

func TestAWaitIsShownOnlyOnceItLasts(t *testing.T) {
	profiles, node := planProfile(t, nil), readyNode()
	node.Ready = false
	action := verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, born)
	assert.Equal(t, verify.DoWait, action.Operation)
	assert.Equal(t, time.Minute, action.Requeue.Sub(born), "then it is looked at")
	base := func(cause verify.Cause) verify.Observed {
		return verify.Observed{Node: node, Waits: verify.Waits{Cause: cause, Start: born}}
	}
	later := born.Add(time.Minute)
	assert.Equal(t, verify.DoWait, verify.Plan(base(verify.CauseNotReady), profiles, modelCluster, later.Add(-1)).Operation)
	assert.Equal(t, verify.DoWait, verify.Plan(base(verify.CauseDaemonSet), profiles, modelCluster, later).Operation, "it waited for something else")
	action = verify.Plan(base(verify.CauseNotReady), profiles, modelCluster, later)
	require.Equal(t, verify.DoShow, action.Operation)
	node.Verified = action.Show
	assert.Equal(t, verify.DoWait, verify.Plan(base(verify.CauseNotReady), profiles, modelCluster, later).Operation, "once")

	node.Ready, node.Annotation = false, progressed(profiles, 1, born)
	action = verify.Plan(base(verify.CauseNotReady), profiles, modelCluster, later)
	assert.Equal(t, corev1.ConditionFalse, action.Show.Status, "an attempt has failed")
	assert.Equal(t, string(verify.CauseNotReady), action.Show.Reason)
}

func TestADetailThatChangesAllTheTimeIsWrittenOnceAMinute(t *testing.T) {
	profiles, node := planProfile(t, func(p *verify.Profile) {
		p.Wait.Allocatable = map[string]verify.Quantity{"nvidia.com/gpu": "9"}
	}), readyNode()
	seen := verify.Observed{Node: node, Waits: verify.Waits{Cause: verify.CauseResource, Start: born.Add(-time.Hour)}}
	writes := 0
	for second := range 600 {
		now := born.Add(time.Duration(second) * time.Second)
		node.Allocatable = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(second%2), resource.DecimalSI)}
		if action := verify.Plan(seen, profiles, modelCluster, now); action.Operation == verify.DoShow {
			writes++
			node.Verified, seen.Shown = action.Show, now
		}
	}
	assert.LessOrEqual(t, writes, 10)
	assert.Positive(t, writes)
}

func TestAVerifiedNodeThatIsClosedIsShownOnceUntilItsWaitLasts(t *testing.T) {
	profiles, node := planProfile(t, nil), readyNode()
	node.Verified, _ = verify.Diagnosis{Cause: verify.CauseChecksPassed}.Shown(node, false)
	node.Ready = false
	action := verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, born)
	require.Equal(t, verify.DoShow, action.Operation, "it is verified no more")
	assert.Equal(t, string(verify.CauseDue), action.Show.Reason, "that it is not Ready may end in a moment")
	node.Verified = action.Show
	pod := workerPod(node, profiles, func(*verify.Pod) {})
	node.Ready = true
	running := verify.Plan(verify.Observed{Node: node, Pods: []verify.Pod{pod}, Worker: ownOf(pod)}, profiles, modelCluster, born.Add(2*time.Second))
	assert.Equal(t, verify.DoWait, running.Operation, "nor is each step a write")
}

func TestWhatAKubeletWritesIsShownCleanAndShort(t *testing.T) {
	profiles, node := planProfile(t, func(p *verify.Profile) {
		p.Wait.Conditions = map[string]verify.ConditionStatus{"Warm": "True"}
	}), readyNode()
	node.Conditions = map[string]corev1.ConditionStatus{"Warm": corev1.ConditionStatus(strings.Repeat("\x1b[31m", 100_000))}
	action := verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, born)
	assert.Equal(t, "the profile waits for a condition: Warm is something else, and must be True", action.Diagnosis.String())
	long := verify.Diagnosis{Cause: verify.CauseCondition, Detail: strings.Repeat("\x1b[31m", 100_000)}.Sentence("n")
	assert.Less(t, len(long), 1000)
	assert.NotContains(t, long, "\x1b")
}

func TestTheTaintOfAKeyThatThePolicyNamesNoMoreIsNotTakenForRemoved(t *testing.T) {
	o, node := planProfile(t, func(p *verify.Profile) { p.Taint = "example.com/new:NoSchedule" }), readyNode()
	node.Annotation = verify.Progress{Attempts: 1, Taint: "example.com/old", Last: &verify.Last{Result: verify.VerdictFailed, Time: born}}.String()
	node.Taints[0].Key = "example.com/old"
	action := verify.Plan(verify.Observed{Node: node}, o, modelCluster, born)
	assert.Equal(t, verify.CauseKeyChanged, action.Diagnosis.Cause)
	assert.False(t, action.Acts(), "the attempts are kept: the taint may be added to a profile again")
	node.Taints = nil
	assert.Equal(t, verify.DoClose, verify.Plan(verify.Observed{Node: node}, o, modelCluster, born).Operation, "another client has removed it")
}
