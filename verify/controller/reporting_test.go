package controller

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/verify"
)

// reporting returns a bed whose profile only reports, and with open Nodes of these names.
func reporting(t *testing.T, report string, names ...string) *bed {
	b := newBed(t)
	b.use(func(p *verify.Profile) { p.Mode, p.Interval = verify.ModeReport, "1h" })
	b.change("old", func(n *corev1.Node) { n.Labels = map[string]string{"pool": "none"} })
	for _, name := range names {
		b.open(name, report)
	}
	return b
}

// open creates an open Node.
func (b *bed) open(name, report string) {
	b.register(name, report)
	b.change(name, func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[1:] })
}

// stands reports whether the condition of a Node has this status and reason.
func (b *bed) stands(name string, status corev1.ConditionStatus, reason verify.Cause) func() bool {
	return func() bool {
		condition := conditionOf(b.node(name))
		return condition.Status == status && condition.Reason == string(reason)
	}
}

func TestAnOpenNodeIsCheckedAndItsConditionKeptCurrent(t *testing.T) {
	b := reporting(t, passes, "n1", "n2", "n3")
	c, stop := b.process()
	defer stop()
	for _, name := range []string{"n1", "n2", "n3"} {
		b.waitFor("it must be reported", b.stands(name, corev1.ConditionTrue, verify.CauseChecksPassed))
	}
	first := conditionOf(b.node("n1"))
	assert.NotContains(t, b.node("n1").Labels, verify.Label)
	assert.Equal(t, []corev1.Taint{{Key: "other", Effect: corev1.TaintEffectNoSchedule}}, b.node("n1").Spec.Taints)
	b.waitFor("its worker Pods go", func() bool { return len(b.podList()) == 0 })

	b.pass(time.Hour)
	c.queue.Add("n1")
	b.waitFor("it is checked each hour", func() bool {
		return b.progress("n1").Round == 2 && conditionOf(b.node("n1")).LastHeartbeatTime.After(first.LastHeartbeatTime.Time)
	})
	reread := conditionOf(b.node("n1"))
	assert.Equal(t, first.LastTransitionTime, reread.LastTransitionTime, "the status is the same")

	b.waitFor("its worker Pods go", func() bool { return len(b.podList()) == 0 }) // one that did not start would wait for an hour
	b.say("n1", refuses)
	b.pass(time.Hour)
	c.EnqueueAll()
	b.waitFor("it must be False, since n2 and n3 pass", b.stands("n1", corev1.ConditionFalse, verify.CauseChecksFailed))
	failed := conditionOf(b.node("n1"))
	assert.True(t, failed.LastTransitionTime.After(first.LastTransitionTime.Time))
	b.waitFor("the metric must count it", func() bool {
		return series(t, newStandingCollector(c), "nodekeep_verify_nodes", "all", string(verify.StateFailing)) == 1
	})
	assert.InDelta(t, 2, series(t, newStandingCollector(c), "nodekeep_verify_nodes", "all", string(verify.StateOpen)), 0)
	_, err := b.client.CoreV1().ConfigMaps(namespace).Get(t.Context(), verify.ReportName("n1"), metav1.GetOptions{})
	require.NoError(t, err, "its report is kept")
	assert.Contains(t, b.event("required check failed"), VerificationFailed)
	b.waitFor("it is tried on", func() bool { b.pass(time.Second); c.queue.Add("n1"); return b.progress("n1").Failed >= 3 })
	assert.Equal(t, failed.LastTransitionTime, conditionOf(b.node("n1")).LastTransitionTime, "other tools count from here")

	b.say("n1", passes)
	b.waitFor("it must be True once it passes", func() bool {
		b.pass(time.Second)
		c.queue.Add("n1")
		return b.stands("n1", corev1.ConditionTrue, verify.CauseChecksPassed)()
	})
	assert.Contains(t, b.event(Verified), "pass again")
	assert.Equal(t, []corev1.Taint{{Key: "other", Effect: corev1.TaintEffectNoSchedule}}, b.node("n1").Spec.Taints)
}

// A Node that fails passed its checks an hour ago. So it looks like one that can answer for others.
func TestANodeThatIsCheckedDoesNotAnswerForItself(t *testing.T) {
	b := reporting(t, passes, "n1", "n2")
	c, stop := b.process()
	defer stop()
	b.waitFor("both must pass", b.forEach([]string{"n1", "n2"}, func(name string) bool { return b.stands(name, corev1.ConditionTrue, verify.CauseChecksPassed)() }))
	b.waitFor("their worker Pods go", func() bool { return len(b.podList()) == 0 })
	b.say("n1", refuses)
	b.pass(time.Hour)
	c.queue.Add("n1")
	b.waitFor("n1 must be False, since n2 passes", b.stands("n1", corev1.ConditionFalse, verify.CauseChecksFailed))
	for _, pod := range b.podList() {
		assert.False(t, strings.HasPrefix(pod.Name, verify.ControlPrefix) && pod.Spec.NodeName == "n1", "a Pod on n1 asks for n1")
	}
}

// Else a tool that acts on False would remove the whole cluster.
func TestAFaultThatAllNodesShareMakesNoConditionFalse(t *testing.T) {
	names := numbered("n", 6)
	b := reporting(t, passes, names...)
	c, stop := b.process()
	defer stop()
	b.waitFor("all must pass", b.forEach(names, func(name string) bool { return b.stands(name, corev1.ConditionTrue, verify.CauseChecksPassed)() }))
	b.mu.Lock()
	b.fault = refuses
	b.mu.Unlock()
	b.pass(time.Hour)
	c.EnqueueAll()
	b.waitFor("all must say that they share it", func() bool {
		for _, name := range names {
			assert.NotEqual(t, corev1.ConditionFalse, conditionOf(b.node(name)).Status)
		}
		b.pass(time.Second)
		c.EnqueueAll()
		return b.forEach(names, func(name string) bool {
			return conditionOf(b.node(name)).Reason == string(verify.CauseShared) || conditionOf(b.node(name)).Reason == string(verify.CauseUnconfirmed)
		})()
	})
}

func TestChecksThatFailOnEveryNodeFromTheStartMakeNoConditionFalse(t *testing.T) {
	names := numbered("n", 4)
	b := reporting(t, refuses, names...)
	_, stop := b.process()
	defer stop()
	b.waitFor("none may be False", b.forEach(names, func(name string) bool { return b.stands(name, corev1.ConditionUnknown, verify.CauseUnconfirmed)() }))
}

func TestARestartChecksNoNodeAgainBeforeItIsDue(t *testing.T) {
	names := numbered("n", 20)
	b := reporting(t, passes, names...)
	_, stop := b.process()
	all := b.forEach(names, func(name string) bool { return b.stands(name, corev1.ConditionTrue, verify.CauseChecksPassed)() })
	b.waitFor("all must pass", func() bool { return all() && len(b.podList()) == 0 })
	stop()
	created, gets := b.wroteTimes("create pods"), b.gets()
	c, stop := b.process()
	defer stop()
	b.waitFor("all must have been looked at", func() bool { return c.queue.Len() == 0 })
	b.open("late", passes)
	b.waitFor("one that is new is checked", b.stands("late", corev1.ConditionTrue, verify.CauseChecksPassed))
	assert.Equal(t, created+1, b.wroteTimes("create pods"))
	assert.Less(t, b.gets()-gets, len(names), "those that are not due are not read")
}

// A kubelet may write any condition of its own Node, and deny that it was checked. It harms no other Node.
func TestAConditionThatAKubeletWritesIsCorrectedAndNoOtherNodeIsTouched(t *testing.T) {
	b := reporting(t, passes, "evil", "n1")
	_, stop := b.process()
	defer stop()
	b.waitFor("both must pass", b.forEach([]string{"evil", "n1"}, func(name string) bool { return b.stands(name, corev1.ConditionTrue, verify.CauseChecksPassed)() }))
	o := b.node("n1")
	b.change("evil", func(n *corev1.Node) {
		for i := range n.Status.Conditions {
			if n.Status.Conditions[i].Type == verify.Condition {
				n.Status.Conditions[i].Status, n.Status.Conditions[i].Reason = corev1.ConditionFalse, "Forged"
			}
		}
	})
	b.waitFor("the condition says again what its checks said", b.stands("evil", corev1.ConditionTrue, verify.CauseChecksPassed))
	assert.Equal(t, o, b.node("n1"))
}

// Else the worker Pods of such Nodes would take the places of all others.
func TestAnAdmissionPolicyThatDropsTheAnnotationLeavesNoWorkerPod(t *testing.T) {
	b := reporting(t, passes)
	b.mu.Lock()
	b.strips = true
	b.mu.Unlock()
	b.open("n1", passes)
	c, stop := b.process()
	defer stop()
	b.waitFor("it must be checked", func() bool { return b.wroteTimes("create pods") > 0 })
	b.waitFor("its worker Pod goes", func() bool { return len(b.podList()) == 0 && c.queue.Len() == 0 })
}

// A kubelet can have its own Node pass whatever is asked.
func TestTheNodesThatPassedLastAreKnownWithoutTheNodeInQuestion(t *testing.T) {
	now := time.Now()
	var nodes []*node
	for i, age := range []time.Duration{time.Hour, time.Minute, time.Second, 2 * time.Second, -time.Hour} {
		nodes = append(nodes, &node{name: fmt.Sprint("n", i), profile: "p", passed: now.Add(-age)})
	}
	nodes = append(nodes, &node{name: "never", profile: "p"}, &node{name: "other", profile: "q", passed: now})
	w := witnesses{time: now, latest: latestPasses(slices.Values(nodes), now)}
	c := &Controller{Options: Options{Now: func() time.Time { return now }}}
	for _, test := range []struct {
		excluded string
		wanted   int
		want     time.Time
	}{
		{"", 1, now.Add(-time.Second)}, {"", 2, now.Add(-2 * time.Second)}, {"n2", 1, now.Add(-2 * time.Second)}, {"n2", 2, now.Add(-time.Minute)}, {"n2", 3, time.Time{}},
	} {
		assert.Equal(t, test.want, w.last(c, "p", test.excluded, test.wanted), "%+v", test)
	}
	assert.Zero(t, w.last(c, "q", "other", 1))
}

// gets returns how often a Node was read live.
func (b *bed) gets() (gets int) {
	for _, action := range b.client.Actions() {
		if action.Matches("get", "nodes") {
			gets++
		}
	}
	return gets
}

func TestATaintOfANodeWhoseProfileOnlyReportsIsRemoved(t *testing.T) {
	b := reporting(t, passes)
	b.register("n1", passes)
	_, stop := b.process()
	defer stop()
	b.waitFor("it must be opened, then checked", func() bool {
		return len(b.node("n1").Spec.Taints) == 1 && b.stands("n1", corev1.ConditionTrue, verify.CauseChecksPassed)()
	})
	assert.NotContains(t, b.node("n1").Labels, verify.Label)
}

func TestAProcessThatIsKilledAfterAnyWriteReportsAllTheSame(t *testing.T) {
	ended := func(b *bed) bool {
		return b.stands("n1", corev1.ConditionTrue, verify.CauseChecksPassed)() && len(b.podList()) == 0
	}
	killed := killedAfterEachWrite(func() *bed { return reporting(t, passes, "n1") }, ended, ended, func(b *bed, killAt int) {
		assert.LessOrEqual(t, b.wroteTimes("create pods"), 2, "killed after write %d: %s", killAt, b.writes)
	})
	assert.GreaterOrEqual(t, killed, 3)
}

func TestWhatAProfileReportedCountsNoMoreOnceItSelectsTheNodeNoMore(t *testing.T) {
	b := reporting(t, passes, "n1", "n2", "n3")
	b.say("n3", refuses)
	c, stop := b.process()
	defer stop()
	b.waitFor("one must fail", func() bool {
		b.pass(time.Second)
		c.queue.Add("n3")
		return b.stands("n3", corev1.ConditionFalse, verify.CauseChecksFailed)()
	})
	b.use(func(p *verify.Profile) { p.NodeSelector = "pool=none" })
	c.EnqueueAll()
	b.change("n3", func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(b.now()) }) // as its kubelet does each 5 minutes
	b.waitFor("no tool may act on it any more", b.stands("n3", corev1.ConditionUnknown, verify.CauseNotVerified))
}

// Of 100,000 Nodes all are due at once after a first start: they wait in line by name, and nothing else of them is in memory.
func TestManyNodesThatAreDueTakeLittleMemoryAndNoCallsWhileTheyWait(t *testing.T) {
	const plural = 10_000
	b := reporting(t, passes)
	profiles := b.profiles
	object := func(i int) *corev1.Node {
		node := b.node("old").DeepCopy()
		node.Name, node.Labels = fmt.Sprintf("node-%d", i), map[string]string{"a": "b"}
		for j := range 20 {
			node.Labels[fmt.Sprintf("example.com/label-%d", j)] = fmt.Sprintf("value-%d", i)
		}
		return node
	}
	used := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	starts, held := verify.NewStarts(profiles.Start), make([]*node, 0, plural)
	prev := used()
	for i := range plural {
		slim := nodeOf(object(i), profiles, "", b.now())
		require.Nil(t, slim.full)
		require.True(t, slim.reports && slim.look.Waits && !slim.look.Time.IsZero())
		starts.Want(slim.name, verify.TurnReport)
		held = append(held, slim)
	}
	item := (used() - prev) / plural
	runtime.KeepAlive(held)
	runtime.KeepAlive(starts)
	assert.Less(t, item, uint64(1024), "bytes a Node")

	for i := range 200 {
		node := object(i)
		node.UID = types.UID(fmt.Sprint("due-", i))
		require.NoError(t, b.client.Tracker().Add(node))
	}
	b.client.ClearActions()
	c, stop := b.process()
	defer stop()
	b.mu.Lock()
	b.report = map[string]string{}
	b.mu.Unlock()
	b.waitFor("as many as may start have a worker Pod", func() bool { return len(b.podList()) >= 50 })
	b.waitFor("the others wait in line", func() bool { return c.queue.Len() == 0 })
	assert.LessOrEqual(t, b.gets(), 5*len(b.podList()), "only Nodes whose turn it was are read")
}
