package controller

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/verify"
)

const settles = 3 * time.Minute // as in the tests on a real API server: six other packages may run

func (b *bed) waitFor(subject string, holds func() bool) {
	b.t.Helper()
	require.Eventually(b.t, holds, settles, 5*time.Millisecond, subject)
}

func TestANodeIsOpenedOnceItsWorkerPodPassed(t *testing.T) {
	b := newBed(t)
	b.register("n1", passes)
	c, stop := b.process()
	defer stop()
	b.waitFor("the Node must be opened", func() bool { return isOpen(b.node("n1")) && len(b.podList()) == 0 })
	b.waitFor("the condition must say so", func() bool { return conditionOf(b.node("n1")).Status == corev1.ConditionTrue })
	progress := b.progress("n1")
	assert.Equal(t, 1, progress.Round)
	assert.Equal(t, verify.VerdictPassed, progress.Last.Result)
	assert.Contains(t, <-b.events.Events, Verified)

	b.waitFor("nothing is left of it in memory", func() bool {
		c.memory.mu.Lock()
		defer c.memory.mu.Unlock()
		object, ok, err := c.nodes.GetStore().GetByKey("n1")
		return len(c.memory.nodes) == 0 && err == nil && ok && object.(*node).full == nil
	})

	// The taint is added again: the Node is verified again.
	b.change("n1", func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule})
	})
	b.waitFor("the Node must be opened again", func() bool { return isOpen(b.node("n1")) && b.progress("n1").Round == 2 })
}

func TestANodeWhoseCheckFailsStaysTaintedWithAReportAndOpensWhenTheFaultEnds(t *testing.T) {
	b := newBed(t)
	b.register("n1", refuses)
	_, stop := b.process()
	defer stop()
	b.waitFor("the Node must be stuck", func() bool {
		return b.progress("n1").Attempts >= 2 && conditionOf(b.node("n1")).Status == corev1.ConditionFalse
	})
	assert.False(t, isOpen(b.node("n1")))
	assert.Equal(t, "a required check failed: dns (Timeout): no answer; nodekeep tries again by itself; `nodekeep show n1 --verification` has the report", conditionOf(b.node("n1")).Message)
	kept, err := b.client.CoreV1().ConfigMaps(namespace).Get(t.Context(), verify.ReportName("n1"), metav1.GetOptions{})
	require.NoError(t, err)
	report, err := verify.ParseSavedReport(kept.Data[verify.ReportKey])
	require.NoError(t, err)
	assert.Equal(t, "n1", report.Node)
	assert.Equal(t, "no answer", report.Results[0].Message)
	assert.Contains(t, <-b.events.Events, VerificationFailed)
	assert.Contains(t, <-b.events.Events, VerificationStuck)

	b.say("n1", passes)
	b.waitFor("the Node must open by itself", func() bool { return isOpen(b.node("n1")) })
}

func TestAProcessThatIsKilledAfterAnyWriteLosesNothing(t *testing.T) {
	for _, report := range []string{passes, refuses} {
		prepare := func() *bed {
			b := newBed(t)
			b.register("n1", report)
			return b
		}
		decided := func(b *bed) bool {
			node := b.node("n1")
			if report == passes {
				return isOpen(node) && conditionOf(node).Status == corev1.ConditionTrue && len(b.podList()) == 0
			}
			return b.progress("n1").Attempts >= 2 && conditionOf(node).Status == corev1.ConditionFalse
		}
		killed := killedAfterEachWrite(prepare, decided, decided, func(b *bed, killAt int) {
			if report == passes {
				// The next process believes no Pod of the one before, so it starts the attempt again.
				assert.LessOrEqual(t, b.wroteTimes("create pods"), 2, "killed after write %d: %s", killAt, b.writes)
			}
		})
		assert.GreaterOrEqual(t, killed, 3, "Pod, Node, condition, deletion: %s", report)
	}
}

// killedAfterEachWrite kills the process of a bed after its first write, that of another bed after its second write, and so on, until one is over
// before. The process that follows has to finish. It returns how often it killed one.
func killedAfterEachWrite(prepare func() *bed, ended, finished func(*bed) bool, check func(b *bed, killAt int)) (killed int) {
	for killAt := 1; killAt < 40; killAt++ {
		b := prepare()
		b.killAt = killAt
		_, stop := b.process()
		dead := func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.dead }
		b.waitFor("it must be over, or the process be killed", func() bool { return dead() || ended(b) })
		stop()
		if !dead() {
			break
		}
		killed++
		b.mu.Lock()
		b.dead, b.killAt = false, 0
		b.mu.Unlock()
		_, stop = b.process()
		b.waitFor(fmt.Sprintf("the next process must finish; killed after write %d", killAt), func() bool { return finished(b) })
		stop()
		check(b, killAt)
	}
	return killed
}

// wroteTimes returns how often a write of this name was accepted.
func (b *bed) wroteTimes(name string) (times int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, write := range b.writes {
		if write == name {
			times++
		}
	}
	return times
}

func TestANodeWhoseWorkerPodCannotBeCreatedIsTriedAgainWithGrowingPauses(t *testing.T) {
	b := newBed(t)
	const tries = 6
	failed := make(chan struct{}, 1000)
	b.reacts("create", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
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

func TestAControllerThatTakesOverStartsEachAttemptAgain(t *testing.T) {
	b := newBed(t)
	names := numbered("n", 8)
	for _, name := range names {
		b.register(name, silent)
	}
	_, stop := b.process()
	b.waitFor("each must have its worker Pod", func() bool { return len(b.podList()) == len(names) })
	stop()
	for _, name := range names {
		b.say(name, passes)
	}
	_, stop = b.process()
	defer stop()
	b.waitFor("all must be opened", b.forEach(names, func(name string) bool { return isOpen(b.node(name)) }))
	b.waitFor("all Pods must go", func() bool { return len(b.podList()) == 0 })
	assert.Equal(t, 2*len(names), b.wroteTimes("create pods"))
	for _, name := range names {
		assert.Equal(t, 1, b.progress(name).Round)
	}
}

func TestAChangedPolicyCountsAtOnce(t *testing.T) {
	b := newBed(t)
	b.register("n1", refuses)
	c, stop := b.process()
	defer stop()
	b.waitFor("an attempt must fail", func() bool { return b.progress("n1").Attempts >= 1 })
	b.use(func(profile *verify.Profile) { profile.NodeSelector = "pool=none" })
	c.EnqueueAll()
	b.waitFor("no profile selects the Node, so the taint goes", func() bool { return len(b.node("n1").Spec.Taints) == 1 })
	assert.NotContains(t, b.node("n1").Labels, verify.Label)
	b.waitFor("its worker Pods go, too", func() bool { return len(b.podList()) == 0 })
}

func TestWhatLooksLikeAWorkerPod(t *testing.T) {
	owned := func(change func(*corev1.Pod)) *pod {
		object := workerPod(Options{Namespace: namespace, Image: "x"}, "check-1", &verify.Node{Name: "n1", UID: "u1"}, verify.Action{}, verify.Task{})
		change(object)
		return podOf(object)
	}
	assert.Equal(t, "n1", owned(func(*corev1.Pod) {}).node)
	for name, change := range map[string]func(*corev1.Pod){
		"a mirror Pod":             func(p *corev1.Pod) { p.Annotations[corev1.MirrorPodAnnotationKey] = "x" },
		"a Pod of another account": func(p *corev1.Pod) { p.Spec.ServiceAccountName = "default" },
		"a Pod without an owner":   func(p *corev1.Pod) { p.OwnerReferences = nil },
		"a Pod of another name":    func(p *corev1.Pod) { p.Name = "shell" },
		"a Pod that is still there although its deletion was forced": func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1, 0)}, new(int64)
		},
		"a Pod that a Job controls": func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Job" },
	} {
		assert.Empty(t, owned(change).node, name)
	}
}

func TestAtAColdStartTheFirstNodeIsOpenedWithoutWhatCannotBeThereYet(t *testing.T) {
	b := newBed(t)
	b.change("old", func(node *corev1.Node) { node.Spec.Unschedulable = true })
	b.register("n1", refuses) // the check would fail
	b.change("n1", unverifiedOnly)
	_, stop := b.process()
	defer stop()
	b.waitFor("the Node must be opened", func() bool { return len(b.node("n1").Spec.Taints) == 0 })
	assert.Equal(t, []string{"dns"}, b.progress("n1").Last.Skipped)
	assert.Contains(t, <-b.events.Events, "skipped")
}

// unverifiedOnly leaves a Node no taint but that of verification.
func unverifiedOnly(node *corev1.Node) { node.Spec.Taints = node.Spec.Taints[:1] }

func TestTheChecksOfAServiceThatCouldBeThereAreSkippedOnNoNode(t *testing.T) {
	infraTaint := corev1.Taint{Key: "example.com/infra", Effect: corev1.TaintEffectNoSchedule}
	infra := func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, infraTaint) }
	for name, c := range map[string]struct {
		dnsNode string // the Node of a Pod of DNS that does not answer; empty: there is none
		pod     func(*corev1.Pod)
		ends    bool // the Pod
		node    func(*corev1.Node)
		skipped bool
	}{
		"no Pod has a place, and the Node is open for any":   {skipped: true},
		"no Pod has a place, and the Node has another taint": {node: infra},
		"it runs and does not answer":                        {dnsNode: "old"},
		"it runs, and the Node has another taint":            {dnsNode: "old", node: infra},
		"it runs on a Node that is away":                     {dnsNode: "away", skipped: true},
		"it runs on a Node that does not exist":              {dnsNode: "gone", skipped: true},
		"a Pod that a kubelet made says nothing":             {dnsNode: "old", pod: func(p *corev1.Pod) { p.OwnerReferences = nil }, skipped: true},
		"a Pod that ends says nothing":                       {dnsNode: "old", ends: true, skipped: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.change("old", func(node *corev1.Node) { node.Spec.Taints = []corev1.Taint{infraTaint} })
			b.register("away", "")
			b.change("away", func(node *corev1.Node) { node.Spec.Taints, node.Status.Conditions = nil, nil })
			require.NoError(t, b.client.Tracker().Add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"}}))
			if c.dnsNode != "" {
				pod := daemonPod(func(p *corev1.Pod) {
					p.Name, p.UID, p.OwnerReferences[0].Kind, p.Spec.NodeName = "dns-1", "dns", "ReplicaSet", c.dnsNode
				})
				if c.pod != nil {
					c.pod(pod)
				}
				require.NoError(t, b.client.Tracker().Add(pod))
				require.NoError(t, b.client.Tracker().Add(&discoveryv1.EndpointSlice{
					ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns-1", Labels: map[string]string{discoveryv1.LabelServiceName: "kube-dns"}},
					Endpoints: []discoveryv1.Endpoint{{
						Addresses: []string{"10.0.0.1"}, NodeName: &c.dnsNode, Conditions: discoveryv1.EndpointConditions{Ready: new(false), Terminating: &c.ends},
						TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "kube-system", Name: "dns-1", UID: "dns"},
					}},
				}))
			}
			b.register("n1", refuses) // the check would fail
			b.change("n1", unverifiedOnly)
			if c.node != nil {
				b.change("n1", c.node)
			}
			_, stop := b.process()
			defer stop()
			b.waitFor("the Node must be decided", func() bool { return b.node("n1").Labels[verify.Label] == "true" || b.progress("n1").Attempts > 0 })
			assert.Equal(t, c.skipped, b.progress("n1").Attempts == 0)
		})
	}
}

func TestCountsOfNodesSurviveAChangeOfThePolicy(t *testing.T) {
	var s standing
	s.begin()
	open := func(profile string) *node { return &node{name: "n1", uid: "u1", profile: profile} }
	held := &node{name: "n1", uid: "u1", profile: "b", closed: true}
	s.changed(nil, open("a"), time.Now())
	assert.Equal(t, map[string]int{"a": 1}, s.open)
	s.changed(open("a"), held, time.Now()) // another policy takes its taint for one of verification
	assert.Empty(t, s.open)
	assert.True(t, s.isClosed("n1"))
	s.changed(held, open("b"), time.Now())
	assert.Equal(t, map[string]int{"b": 1}, s.open)
	assert.False(t, s.isClosed("n1"))
	s.changed(open("b"), nil, time.Now())
	assert.Empty(t, s.open)
}
