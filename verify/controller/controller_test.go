package controller

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/verify"
)

const settles = 3 * time.Minute // as in the tests on a real API server: six other packages may run

func (b *bed) waitFor(what string, holds func() bool) {
	b.t.Helper()
	require.Eventually(b.t, holds, settles, 5*time.Millisecond, what)
}

func TestANodeIsOpenedOnceItsWorkerPodPassed(t *testing.T) {
	b := newBed(t)
	b.register("n1", passes)
	_, stop := b.process()
	defer stop()
	b.waitFor("the Node must be opened", func() bool { return isOpen(b.node("n1")) && len(b.podList()) == 0 })
	b.waitFor("the condition must say so", func() bool { return conditionOf(b.node("n1")).Status == corev1.ConditionTrue })
	progress := verify.ParseProgress(b.node("n1").Annotations[verify.Annotation])
	assert.Equal(t, 1, progress.Round)
	assert.Equal(t, verify.VerdictPassed, progress.Last.Result)
	assert.Contains(t, <-b.events.Events, Verified)

	// The taint is added again: the Node is verified again.
	b.change("n1", func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule})
	})
	b.waitFor("the Node must be opened again", func() bool {
		return isOpen(b.node("n1")) && verify.ParseProgress(b.node("n1").Annotations[verify.Annotation]).Round == 2
	})
}

func TestANodeWhoseCheckFailsStaysTaintedWithAReportAndOpensWhenTheFaultEnds(t *testing.T) {
	b := newBed(t)
	b.register("n1", refuses)
	_, stop := b.process()
	defer stop()
	b.waitFor("the Node must be stuck", func() bool {
		return verify.ParseProgress(b.node("n1").Annotations[verify.Annotation]).Attempts >= 2 && conditionOf(b.node("n1")).Status == corev1.ConditionFalse
	})
	assert.False(t, isOpen(b.node("n1")))
	assert.Equal(t, "check dns: no answer", conditionOf(b.node("n1")).Message)
	kept, err := b.client.CoreV1().ConfigMaps(namespace).Get(t.Context(), verify.ReportName("n1"), metav1.GetOptions{})
	require.NoError(t, err)
	report, err := verify.ParseSavedReport(kept.Data[verify.ReportKey])
	require.NoError(t, err)
	assert.Equal(t, "n1", report.Node)
	assert.Equal(t, "no answer", report.Results[0].Message)
	assert.Contains(t, <-b.events.Events, VerificationFailed)
	assert.Contains(t, <-b.events.Events, VerificationStuck)

	b.mu.Lock()
	b.report["n1"] = passes
	b.mu.Unlock()
	b.waitFor("the Node must open by itself", func() bool { return isOpen(b.node("n1")) })
}

func TestAProcessThatIsKilledAfterAnyWriteLosesNothing(t *testing.T) {
	for _, report := range []string{passes, refuses} {
		killed := 0
		for killAt := 1; killAt < 20; killAt++ {
			b := newBed(t)
			b.register("n1", report)
			b.killAt = killAt
			_, stop := b.process()
			decided := func() bool {
				node := b.node("n1")
				if report == passes {
					return isOpen(node) && conditionOf(node).Status == corev1.ConditionTrue && len(b.podList()) == 0
				}
				return verify.ParseProgress(node.Annotations[verify.Annotation]).Attempts >= 2 && conditionOf(node).Status == corev1.ConditionFalse
			}
			dead := func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.dead }
			b.waitFor("it must be decided or killed", func() bool { return dead() || decided() })
			stop()
			if !dead() {
				break
			}
			killed++
			b.mu.Lock()
			b.dead, b.killAt = false, 0
			b.mu.Unlock()
			_, stop = b.process()
			b.waitFor("the next process must finish", decided)
			stop()
			b.mu.Lock()
			writes := strings.Join(b.writes, ", ")
			b.mu.Unlock()
			if report == passes {
				assert.LessOrEqual(t, strings.Count(writes, "create pods"), 1, "killed after write %d: %s", killAt, writes)
			}
		}
		assert.GreaterOrEqual(t, killed, 3, "Pod, Node, condition, deletion: %s", report)
	}
}

func TestANodeWhoseWorkerPodCannotBeCreatedIsTriedAgainWithGrowingPauses(t *testing.T) {
	b := newBed(t)
	const tries = 6
	failed := make(chan struct{}, 1000)
	b.client.PrependReactor("create", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		failed <- struct{}{}
		return true, nil, errors.New("no answer")
	})
	c, stop := b.process()
	defer stop()
	b.register("n1", passes)
	for range tries {
		<-failed
	}
	b.waitFor("every failed try must count for the pause", func() bool { return c.queue.NumRequeues("n1") >= tries })
}

func TestTwoControllersStartOnePodForEachAttempt(t *testing.T) {
	b := newBed(t)
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, name := range names {
		b.register(name, passes)
	}
	_, stop := b.processes(2)
	defer stop()
	b.waitFor("all must be opened", func() bool {
		for _, name := range names {
			if !isOpen(b.node(name)) {
				return false
			}
		}
		return len(b.podList()) == 0
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	created := strings.Count(strings.Join(b.writes, ","), "create pods")
	// A stale view may start an attempt whose Pod has passed and was deleted already; that Pod opens nothing.
	assert.LessOrEqual(t, created, 2*len(names))
	assert.GreaterOrEqual(t, created, len(names))
}

func TestAChangedPolicyCountsAtOnce(t *testing.T) {
	b := newBed(t)
	b.register("n1", refuses)
	c, stop := b.process()
	defer stop()
	b.waitFor("an attempt must fail", func() bool {
		return verify.ParseProgress(b.node("n1").Annotations[verify.Annotation]).Attempts >= 1
	})
	b.use(func(profile *verify.Profile) { profile.NodeSelector = "pool=none" })
	c.EnqueueAll()
	b.waitFor("no profile selects the Node, so the taint goes", func() bool { return len(b.node("n1").Spec.Taints) == 1 })
	assert.NotContains(t, b.node("n1").Labels, verify.Label)
	b.waitFor("its worker Pods go, too", func() bool { return len(b.podList()) == 0 })
}

func TestOnlyWhatTheControllerCreatedCountsAsAWorkerPod(t *testing.T) {
	owned := func(change func(*corev1.Pod)) *pod {
		object := workerPod(Options{Namespace: namespace, Image: "x"}, &verify.Node{Name: "n1", UID: "u1"}, verify.Action{PodName: "check-1"}, verify.Task{})
		change(object)
		return podOf(object)
	}
	assert.Equal(t, "n1", owned(func(*corev1.Pod) {}).node)
	for name, change := range map[string]func(*corev1.Pod){
		"a mirror Pod":              func(p *corev1.Pod) { p.Annotations[corev1.MirrorPodAnnotationKey] = "x" },
		"a Pod of another account":  func(p *corev1.Pod) { p.Spec.ServiceAccountName = "default" },
		"a Pod without an owner":    func(p *corev1.Pod) { p.OwnerReferences = nil },
		"a Pod of another name":     func(p *corev1.Pod) { p.Name = "shell" },
		"a Pod that a Job controls": func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Job" },
	} {
		assert.Empty(t, owned(change).node, name)
	}
}

func TestAtAColdStartTheFirstNodeIsOpenedWithoutWhatCannotBeThereYet(t *testing.T) {
	b := newBed(t)
	b.change("old", func(node *corev1.Node) { node.Spec.Unschedulable = true })
	b.register("n1", refuses) // the check would fail
	_, stop := b.process()
	defer stop()
	b.waitFor("the Node must be opened", func() bool { return isOpen(b.node("n1")) })
	assert.Equal(t, []string{"dns"}, verify.ParseProgress(b.node("n1").Annotations[verify.Annotation]).Last.Skipped)
	assert.Contains(t, <-b.events.Events, "skipped")
}

func TestAMirrorPodUnderTheNameOfAWorkerPodIsDeleted(t *testing.T) {
	b := newBed(t)
	b.register("n1", passes)
	node := b.node("n1")
	progress := verify.Progress{Hash: b.profiles.All()[0].Hash, BootID: "b1"}
	require.NoError(t, b.client.Tracker().Add(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: verify.PodName(string(node.UID), progress), UID: "mirror", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}},
		Spec:       corev1.PodSpec{NodeName: "hostile"},
	}))
	_, stop := b.process()
	defer stop()
	b.waitFor("the Node must be opened", func() bool { return isOpen(b.node("n1")) })
}

func TestCountsOfNodesSurviveAChangeOfThePolicy(t *testing.T) {
	var s standing
	s.held, s.open, s.controls = map[string]stands{}, map[string]int{}, map[string]int{}
	open := func(profile string) *node { return &node{name: "n1", uid: "u1", profile: profile} }
	held := &node{name: "n1", uid: "u1", profile: "b", held: true}
	s.changed(nil, open("a"), time.Now())
	assert.Equal(t, map[string]int{"a": 1}, s.open)
	s.changed(open("a"), held, time.Now()) // another policy takes its taint for one of verification
	assert.Empty(t, s.open)
	assert.True(t, s.isHeld("n1"))
	s.changed(held, open("b"), time.Now())
	assert.Equal(t, map[string]int{"b": 1}, s.open)
	assert.False(t, s.isHeld("n1"))
	s.changed(open("b"), nil, time.Now())
	assert.Empty(t, s.open)
}

func TestTheMemoryOfANodeEndsWhenItIsOpenedOrDeleted(t *testing.T) {
	b := newBed(t)
	b.register("n1", passes)
	c, stop := b.process()
	defer stop()
	b.waitFor("the Node must be opened", func() bool { return isOpen(b.node("n1")) && len(b.podList()) == 0 })
	b.waitFor("nothing is left of it in memory", func() bool {
		c.memory.mu.Lock()
		defer c.memory.mu.Unlock()
		return len(c.memory.nodes) == 0
	})
	b.waitFor("memory holds little of it", func() bool {
		object, ok, err := c.nodes.GetStore().GetByKey("n1")
		return err == nil && ok && object.(*node).full == nil
	})
}
