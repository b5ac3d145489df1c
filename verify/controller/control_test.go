package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/verify"
)

// verified has the Node old count as verified; its workers report this.
func (b *bed) verified(report string) {
	b.t.Helper()
	b.change("old", func(node *corev1.Node) {
		b.hasPassed(node)
		node.Labels = nil
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
	b.say("old", report)
}

// hasPassed has a Node say that it passed the checks of the policy.
func (b *bed) hasPassed(node *corev1.Node) {
	passed := verify.Progress{Round: 1, Hash: b.profiles.All()[0].Hash, Last: &verify.Last{Result: verify.VerdictPassed}}
	node.Annotations = map[string]string{verify.Annotation: passed.String()}
}

// say changes what the workers of a Node report.
func (b *bed) say(name, report string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.report[name] = report
}

// breaks gives the workers of all Nodes the same report; "" ends that.
func (b *bed) breaks(report string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = report
}

func (b *bed) progress(name string) verify.Progress {
	return verify.ParseProgress(b.node(name).Annotations[verify.Annotation])
}

func (b *bed) drainEvents() (events []string) {
	for {
		select {
		case event := <-b.events.Events:
			events = append(events, event)
		default:
			return events
		}
	}
}

func count(events []string, reason string) (found int) {
	for _, event := range events {
		if strings.Contains(event, " "+reason+" ") {
			found++
		}
	}
	return found
}

func TestAFaultThatAllNodesShareCountsNoAttemptAndAllOpenWhenItEnds(t *testing.T) {
	b := newBed(t)
	b.use(removes)
	b.verified(passes)
	b.breaks(refuses)
	names := numbered("n", 200)
	for _, name := range names {
		b.register(name, passes)
	}
	c, stop := b.process()
	defer stop()
	b.waitFor("each Node must have failed twice as others do", b.forEach(names, func(name string) bool { return b.progress(name).Shared >= 2 }))
	assert.True(t, b.forEach(names, func(name string) bool { return b.progress(name).Attempts == 0 && !isOpen(b.node(name)) })())
	b.breaks(silent) // attempts go before conditions, and on a slow machine the next one may always be due
	b.waitFor("the conditions must say so", b.forEach(names, func(name string) bool { return conditionOf(b.node(name)).Reason == verify.ReasonShared }))
	assert.Contains(t, conditionOf(b.node("n0")).Message, "verified Node old fails it, too: no answer")
	b.breaks(refuses)
	assert.InDelta(t, 1, sharedFailure(t, c), 0)
	b.waitFor("the brake must be shown", func() bool { return brakeOpen(t, c, verify.BrakeSharedFailure) == 1 })
	assert.Empty(t, b.ledger().Removals, "none is removed")
	require.Len(t, b.ledger().Brakes, 1)
	kept, err := b.client.CoreV1().ConfigMaps(namespace).Get(t.Context(), verify.ReportName("n0"), metav1.GetOptions{})
	require.NoError(t, err)
	assert.Contains(t, kept.Data[verify.ReportKey], verify.ReasonShared)

	b.breaks("")
	b.waitFor("all must open when the fault ends", b.forEach(names, func(name string) bool { return isOpen(b.node(name)) }))
	events := b.drainEvents()
	assert.Equal(t, 1, count(events, SharedFailure), "one Event, not one of each Node")
	assert.Zero(t, count(events, VerificationFailed)+count(events, RemovalHeld)+count(events, NodeRemoved))
	b.waitFor("the brake must close", func() bool { return brakeOpen(t, c, verify.BrakeSharedFailure) == 0 })
	assert.Equal(t, 1, b.controlPods(), "its result counts for a minute")
	b.waitFor("the series must say that it is over", func() bool { return sharedFailure(t, c) == 0 })
}

func TestAPolicyWhoseCheckOfTheMachineFailsEverywhereRemovesNoneAndAllOpenWhenItIsCorrected(t *testing.T) {
	b := newBed(t)
	b.use(func(profile *verify.Profile) {
		removes(profile)
		profile.Checks = append(profile.Checks, verify.Check{Name: "disk", Container: &verify.Container{Image: "registry.example/disk:1"}})
	})
	b.exitCode = 1
	b.verified(passes)
	names := numbered("n", 200)
	for _, name := range names {
		b.register(name, passes)
	}
	c, stop := b.process()
	defer stop()
	b.waitFor("each removal must be held", b.forEach(names, func(name string) bool { return b.held(name) != nil }))
	for _, name := range names {
		assert.Equal(t, verify.BrakeNoControl, b.held(name).Reason, name)
	}
	assert.Contains(t, b.held("n0").Message, "no other Node of the profile has passed check disk")
	assert.Empty(t, b.ledger().Removals)
	b.waitFor("one Event must say so", func() bool { return len(b.events.Events) > len(names) })
	assert.Equal(t, 1, count(b.drainEvents(), RemovalHeld), "not one of each Node")

	b.use(removes)
	c.EnqueueAll()
	b.waitFor("all must open when the policy is corrected", b.forEach(names, func(name string) bool { return isOpen(b.node(name)) }))
	assert.Empty(t, b.ledger().Removals)
}

// forEach reports whether something has held for each of the Nodes at some time. A Node for which it did is not looked at again: that costs time.
func (b *bed) forEach(names []string, holds func(name string) bool) func() bool {
	left := slices.Clone(names)
	return func() bool {
		left = slices.DeleteFunc(left, holds)
		return len(left) == 0
	}
}

func TestAFaultOfOneNodeCountsAttemptsThoughVerifiedNodesPass(t *testing.T) {
	for name, old := range map[string]string{"control passes": passes, "control says nothing": "garbage"} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.verified(old)
			b.register("n1", refuses)
			_, stop := b.process()
			defer stop()
			b.waitFor("the Node must be stuck", func() bool { return b.progress("n1").Attempts >= 2 })
			assert.Zero(t, b.progress("n1").Shared)
			assert.Equal(t, verify.VerdictFailed, b.progress("n1").Last.Result)
			assert.Equal(t, 1, b.controlPods())
			assert.Zero(t, count(b.drainEvents(), SharedFailure))
		})
	}
}

func TestWithoutAVerifiedNodeThereIsNoControl(t *testing.T) {
	for name, change := range map[string]func(*corev1.Node){
		"not verified": func(node *corev1.Node) { node.Annotations = nil },
		"only with the label, which a kubelet can set": func(node *corev1.Node) {
			node.Labels, node.Annotations = map[string]string{verify.Label: "true"}, nil
		},
		"not Ready":     func(node *corev1.Node) { node.Status.Conditions = nil },
		"cordoned":      func(node *corev1.Node) { node.Spec.Unschedulable = true },
		"of no profile": func(node *corev1.Node) { node.Labels = map[string]string{"pool": "none"} },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.verified(refuses)
			b.change("old", change)
			b.register("other", passes) // ordinary Pods can run on it, so the cluster is not cold
			b.change("other", func(node *corev1.Node) { node.Spec.Taints = nil })
			b.register("n1", refuses)
			_, stop := b.process()
			defer stop()
			b.waitFor("the Node must be stuck", func() bool { return b.progress("n1").Attempts >= 2 })
			assert.Zero(t, b.controlPods())
		})
	}
}

func TestAControllerThatTakesOverBelievesNoControlPodOfTheOneBefore(t *testing.T) {
	b := newBed(t)
	b.verified(passes)
	b.breaks(refuses)
	b.register("n1", passes)
	_, stop := b.process()
	b.waitFor("the failure must be found to be shared", func() bool { return b.progress("n1").Shared >= 1 })
	stop()
	prev := b.podList()
	require.NotEmpty(t, prev, "the control Pod stays while its result counts")
	c, stop := b.process()
	defer stop()
	b.waitFor("a control Pod of its own must answer", func() bool { return b.progress("n1").Shared >= 2 && b.controlPods() == 2 })
	b.pass(4 * time.Minute)
	c.queue.Add(controlWork)
	b.waitFor("the control Pod of the process before must go", func() bool {
		return !slices.ContainsFunc(b.podList(), func(pod corev1.Pod) bool { return pod.UID == prev[0].UID })
	})
}

func TestWhatAnotherClientCreatesInTheNamespaceOfTheChecksOpensNoNodeAndDecidesNothing(t *testing.T) {
	forged := func(b *bed, name, place, uid, report string) *corev1.Pod {
		pod := workerPod(Options{Namespace: namespace, Image: "x"}, name, &verify.Node{Name: place, UID: uid}, verify.Action{Profile: b.profiles.All()[0]}, verify.Task{})
		pod.UID, pod.CreationTimestamp = types.UID("forged-"+name), metav1.NewTime(b.now())
		ended := &corev1.ContainerStateTerminated{Message: report, FinishedAt: metav1.NewTime(b.now())}
		if pod.Status.Phase = corev1.PodSucceeded; report == refuses {
			pod.Status.Phase, ended.ExitCode = corev1.PodFailed, 1
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: verify.Worker, State: corev1.ContainerState{Terminated: ended}}}
		return pod
	}
	t.Run("a passed worker Pod, before and while the true one runs", func(t *testing.T) {
		b := newBed(t)
		b.register("n1", refuses)
		require.NoError(t, b.client.Tracker().Add(forged(b, verify.PodPrefix+"before", "n1", string(b.node("n1").UID), passes)))
		_, stop := b.process()
		defer stop()
		b.waitFor("the true worker Pod must decide", func() bool { return b.progress("n1").Attempts >= 1 })
		require.NoError(t, b.client.Tracker().Add(forged(b, verify.PodPrefix+"forged", "n1", string(b.node("n1").UID), passes)))
		b.waitFor("the Node must be stuck", func() bool { return b.progress("n1").Attempts >= 3 })
		assert.False(t, isOpen(b.node("n1")))
	})
	t.Run("a failed worker Pod", func(t *testing.T) {
		b := newBed(t)
		b.register("n1", passes)
		require.NoError(t, b.client.Tracker().Add(forged(b, verify.PodPrefix+"before", "n1", string(b.node("n1").UID), refuses)))
		_, stop := b.process()
		defer stop()
		b.waitFor("the Node must be opened", func() bool { return isOpen(b.node("n1")) })
		assert.Equal(t, verify.VerdictPassed, b.progress("n1").Last.Result)
	})
	t.Run("a failed control Pod", func(t *testing.T) {
		b := newBed(t)
		b.verified(passes)
		b.register("n1", refuses)
		require.NoError(t, b.client.Tracker().Add(forged(b, verify.ControlPrefix+"forged", "old", string(b.node("old").UID), refuses)))
		_, stop := b.process()
		defer stop()
		b.waitFor("the attempt must count", func() bool { return b.progress("n1").Attempts >= 1 })
		assert.Zero(t, b.progress("n1").Shared)
	})
}

func TestOneNodeWhoseKubeletLiesHasNoFailureOfAllNodesCountAgainstAnother(t *testing.T) {
	b := newBed(t)
	b.use(removes)
	b.verified(refuses) // as all Nodes but one
	b.register("liar", passes)
	b.change("liar", func(node *corev1.Node) {
		node.Spec.Taints = nil
		b.hasPassed(node)
	})
	b.register("n1", refuses)
	_, stop := b.process()
	defer stop()
	b.waitFor("the failure must be found to be shared", func() bool { return b.progress("n1").Shared >= 3 })
	assert.Zero(t, b.progress("n1").Attempts)
	assert.Empty(t, b.ledger().Removals)
}

func TestAControlPodIsDeletedWhenItsResultCountsNoMore(t *testing.T) {
	b := newBed(t)
	b.verified(passes)
	b.breaks(refuses)
	b.register("n1", passes)
	c, stop := b.process()
	defer stop()
	b.waitFor("the failure must be found to be shared", func() bool { return b.progress("n1").Shared >= 1 })
	b.use(func(profile *verify.Profile) { profile.Timeout = "31s" })
	b.breaks("")
	c.EnqueueAll()
	b.waitFor("the control Pod of the old checks must go", func() bool { return len(b.podList()) == 0 && isOpen(b.node("n1")) })
}

// controlPods returns how many control Pods were created.
func (b *bed) controlPods() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(b.pods), func(name string) bool { return !strings.HasPrefix(name, verify.ControlPrefix) }))
}

func sharedFailure(t *testing.T, c *Controller) float64 {
	t.Helper()
	return series(t, newStandingCollector(c), "nodekeep_verify_shared_failure", "all")
}

// series returns the value of a gauge or counter, by the values of its labels.
func series(t *testing.T, collector prometheus.Collector, name string, labels ...string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var values []string
			for _, label := range metric.GetLabel() {
				values = append(values, label.GetValue())
			}
			if family.GetName() == name && slices.Equal(values, labels) {
				return metric.GetGauge().GetValue() + metric.GetCounter().GetValue() // one of them is 0
			}
		}
	}
	t.Fatal("there is no such series")
	return 0
}
