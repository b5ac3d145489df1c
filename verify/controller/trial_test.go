package controller

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/verify"
)

// opens has a Node take workloads that has never passed the checks of the policy.
func (b *bed) opens(name, report string) {
	b.t.Helper()
	b.register(name, report)
	b.change(name, func(node *corev1.Node) { node.Spec.Taints = nil })
}

// trial returns the last trial that is kept of the profile; zero: none is.
func (b *bed) trial() (last verify.SavedReport) {
	kept, err := b.client.CoreV1().ConfigMaps(namespace).Get(context.Background(), verify.TrialName("all"), metav1.GetOptions{})
	if err == nil {
		last, err = verify.ParseSavedReport(kept.Data[verify.ReportKey])
		require.NoError(b.t, err)
	}
	return last
}

// trialPods returns how many trial Pods were created.
func (b *bed) trialPods() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(b.pods), func(name string) bool { return !strings.HasPrefix(name, verify.TrialPrefix) }))
}

func (b *bed) noPods() bool { return len(b.podList()) == 0 }

func TestAProfileIsTriedOnceOnAnOpenNodeAndIsProvedWhenThatPasses(t *testing.T) {
	b := newBed(t)
	b.opens("n1", passes)
	head := b.node("n1").ResourceVersion
	c, stop := b.process()
	b.waitFor("the trial must pass", func() bool { return b.trial().Result == verify.VerdictPassed && b.noPods() })
	assert.Equal(t, "n1", b.trial().Node)
	assert.True(t, b.trial().TrialOf(b.profiles.All()[0]))
	b.pass(time.Hour)
	c.EnqueueAll()
	b.opens("n2", passes) // a trial Pod of another look would be there before its worker Pod
	b.change("n2", func(node *corev1.Node) { node.Spec.Taints = []corev1.Taint{b.profiles.All()[0].Taint} })
	b.waitFor("another Node must open", func() bool { return b.node("n2").Labels[verify.Label] == "true" })
	stop()
	assert.Equal(t, head, b.node("n1").ResourceVersion, "nothing of the Node changes")

	_, stop = b.process()
	defer stop()
	b.register("n3", passes)
	b.waitFor("a Node must open under the next process", func() bool { return isOpen(b.node("n3")) })
	assert.Equal(t, 1, b.trialPods(), "the next process believes what was kept")
	assert.Zero(t, count(b.drainEvents(), ProfileNotProved))
}

func TestATrialThatFailsIsOneEventAndIsRepeatedUntilItPasses(t *testing.T) {
	b := newBed(t)
	b.opens("n1", refuses)
	_, stop := b.process()
	b.waitFor("the trial must fail again and again", func() bool { return b.trial().Attempt >= 2 })
	last := b.trial()
	assert.Equal(t, verify.VerdictFailed, last.Result)
	assert.Equal(t, "check dns failed in a trial on Node n1 (Timeout): no answer; correct the check or what it asks for, or new Nodes wait", last.TrialWhy(""))
	assert.Empty(t, b.node("n1").Spec.Taints, "the Node stays open")
	events := b.drainEvents()
	assert.Equal(t, 1, count(events, ProfileNotProved), "%s", events)
	assert.Contains(t, strings.Join(events, "\n"), "Profile all: not yet proved: check dns failed in a trial on Node n1 (Timeout)")
	stop()

	_, stop = b.process()
	defer stop()
	b.waitFor("the next process must go on counting", func() bool { return b.trial().Attempt > last.Attempt })
	b.say("n1", passes)
	b.waitFor("the trial must pass once the fault ends", func() bool { return b.trial().Result == verify.VerdictPassed && b.noPods() })
}

func TestChecksThatANodeHasPassedAreNotTried(t *testing.T) {
	b := newBed(t)
	b.opens("n1", refuses)
	b.change("n1", b.hasPassed)
	c, stop := b.process()
	defer stop()
	b.waitFor("the profile must be known to be proved", func() bool {
		known, ok := c.trials.find(b.profiles.All()[0])
		return ok && known.proved
	})
	assert.Zero(t, b.trialPods())

	b.use(func(profile *verify.Profile) { profile.Timeout = "31s" })
	c.EnqueueAll()
	b.waitFor("the checks that changed must be tried", func() bool { return b.trial().Result == verify.VerdictFailed })
	assert.True(t, b.trial().TrialOf(b.profiles.All()[0]))

	b.use(nil)
	c.EnqueueAll()
	b.waitFor("the checks of before must be proved, and the trial Pod must go", func() bool {
		known, ok := c.trials.find(b.profiles.All()[0])
		return ok && known.proved && b.noPods()
	})
}

func TestWithoutAnOpenNodeAProfileIsTriedOnceOneIsThere(t *testing.T) {
	for name, change := range map[string]func(*corev1.Node){
		"not Ready":            func(node *corev1.Node) { node.Status.Conditions[0].Status = corev1.ConditionFalse },
		"cordoned":             func(node *corev1.Node) { node.Spec.Unschedulable = true },
		"of no profile":        func(node *corev1.Node) { node.Labels = map[string]string{"pool": "none"} },
		"behind the gate":      func(node *corev1.Node) { node.Spec.Taints = []corev1.Taint{{Key: "nodekeep.dev/restoring"}} },
		"whose CNI is not yet": func(node *corev1.Node) { node.Spec.Taints = []corev1.Taint{{Key: "example.com/agent-not-ready"}} },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.opens("n1", passes)
			b.change("n1", change)
			c, stop := b.process()
			defer stop()
			b.waitFor("it must be looked for", func() bool {
				known, ok := c.trials.find(b.profiles.All()[0])
				return ok && !known.next.IsZero()
			})
			assert.Zero(t, b.trialPods())
			b.change("n1", func(node *corev1.Node) {
				node.Labels, node.Spec = nil, corev1.NodeSpec{}
				node.Status.Conditions[0].Status = corev1.ConditionTrue
			})
			b.waitFor("the trial must pass", func() bool { return b.trial().Result == verify.VerdictPassed })
		})
	}
}

func TestAVerifiedNodeIsTriedFirst(t *testing.T) {
	b := newBed(t)
	for _, name := range numbered("n", 20) {
		b.opens(name, refuses)
	}
	b.verified(passes)
	b.use(func(profile *verify.Profile) { profile.Timeout = "31s" }) // it has passed other checks
	_, stop := b.process()
	defer stop()
	b.waitFor("the trial must pass", func() bool { return b.trial().Result == verify.VerdictPassed })
	assert.Equal(t, "old", b.trial().Node)
}

func TestAProfileOfChecksOfTheMachineAloneIsNotTried(t *testing.T) {
	b := newBed(t)
	b.use(func(profile *verify.Profile) {
		profile.Checks = []verify.Check{{Name: "disk", Container: &verify.Container{Image: "registry.example/disk:1"}}}
	})
	b.opens("n1", passes)
	_, stop := b.process()
	defer stop()
	b.register("n2", noResults)
	b.waitFor("the Node must be opened by its own Pod", func() bool { return isOpen(b.node("n2")) })
	assert.Zero(t, b.trialPods())
}

func TestATrialOfChecksInForceIsKeptLongerThanReports(t *testing.T) {
	b := newBed(t)
	b.sweep = 10 * time.Millisecond
	for _, hash := range []string{b.profiles.All()[0].Hash, "other"} {
		object := reportMap(namespace, verify.SavedReport{Profile: "all", Hash: hash, Result: verify.VerdictPassed, Time: b.now().Add(-2 * time.Hour)})
		if object.CreationTimestamp = metav1.NewTime(b.now().Add(-2 * time.Hour)); hash == "other" {
			object.Name = "profile.all-before"
		}
		require.NoError(t, b.client.Tracker().Add(object))
	}
	_, stop := b.process()
	defer stop()
	b.waitFor("the trial of other checks must be deleted", func() bool {
		_, err := b.client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "profile.all-before", metav1.GetOptions{})
		return err != nil
	})
	b.keep("zz-last", 2*time.Hour, nil)
	b.waitFor("the next sweep must finish", func() bool { return !b.keeps("zz-last") })
	assert.Equal(t, verify.VerdictPassed, b.trial().Result)
}
