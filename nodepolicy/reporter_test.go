package nodepolicy

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/api/v1alpha1"
)

// replica returns a Pod of nodekeep.
func replica(name, component string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app.kubernetes.io/name": "nodekeep", "app.kubernetes.io/component": component}},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

// reports has a Reporter write the status until the test ends. It leads as long as leads is true.
func (b *bed) reports(t *testing.T, leads *atomic.Bool) {
	t.Helper()
	r := Reporter{
		Source: b.Source, Leading: func() bool { return leads.Load() }, Nodes: func() int { return 7 },
		Held:     func() (*v1alpha1.HeldRules, bool) { return nil, true },
		Governed: func(context.Context) (bool, error) { return false, nil },
	}
	go r.Run(t.Context())
	synctest.Wait()
}

// status returns that of the NodePolicy.
func (b *bed) status(t *testing.T) v1alpha1.NodePolicyStatus {
	t.Helper()
	synctest.Wait()
	object, err := b.objects.Resource(Resource()).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return readStatus(object.Object)
}

// patches counts the writes of the status.
func (b *bed) patches() (count int) {
	for _, action := range b.objects.Actions() {
		if action.Matches("patch", "nodepolicies/status") {
			count++
		}
	}
	return count
}

func isTrue(status v1alpha1.NodePolicyStatus, condition string) bool {
	return apimeta.IsStatusConditionTrue(status.Conditions, condition)
}

func TestTheStatusComesToSayThatEveryReplicaFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leads atomic.Bool
		leads.Store(true)
		b := newBed([]runtime.Object{objectOf(inline, "a", 1)},
			replica("webhook-1", "webhook", corev1.PodRunning), replica("over", "webhook", corev1.PodSucceeded), replica("job", "uninstall", corev1.PodRunning))
		b.Replica = "webhook-1"
		b.runs(t)
		b.reports(t, &leads)
		time.Sleep(5 * time.Second)
		status := b.status(t)
		assert.Equal(t, map[string]int64{"webhook-1": 1}, status.ReadBy)
		assert.True(t, isTrue(status, v1alpha1.Accepted))
		assert.True(t, isTrue(status, v1alpha1.InForce), "%+v", status.Conditions)
		assert.EqualValues(t, 7, *status.Nodes)
		writes := b.patches()
		time.Sleep(time.Hour)
		assert.Equal(t, writes, b.patches(), "a status that is right is not written")

		b.update(t, objectOf(unknown, "a", 2))
		time.Sleep(5 * time.Second)
		status = b.status(t)
		assert.False(t, isTrue(status, v1alpha1.Accepted))
		assert.False(t, isTrue(status, v1alpha1.InForce))
		assert.EqualValues(t, 2, status.ObservedGeneration)
		assert.NotContains(t, status.ReadBy, "webhook-1", "it follows no generation of the object") // the update had no status

		b.update(t, objectOf(neverManifest, "a", 3))
		time.Sleep(5 * time.Second)
		assert.True(t, isTrue(b.status(t), v1alpha1.InForce))
	})
}

func TestOnlyTheLeaderWritesTheConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leads atomic.Bool
		b := newBed([]runtime.Object{objectOf(inline, "a", 1)}, replica("webhook-1", "webhook", corev1.PodRunning))
		b.runs(t)
		b.reports(t, &leads)
		time.Sleep(time.Minute)
		assert.Zero(t, b.patches(), "nor does a process without a Pod say what it follows")
		leads.Store(true)
		time.Sleep(time.Minute)
		assert.True(t, isTrue(b.status(t), v1alpha1.Accepted))
		assert.False(t, isTrue(b.status(t), v1alpha1.InForce), "the Pod has not said what it follows")
	})
}

func TestAStatusThatAnotherClientUndoesIsWrittenOnceASecondAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leads atomic.Bool
		leads.Store(true)
		b := newBed([]runtime.Object{objectOf(inline, "a", 1)}, replica("webhook-1", "webhook", corev1.PodRunning))
		b.Replica = "webhook-1"
		b.runs(t)
		b.reports(t, &leads)
		const seconds = 60
		for range seconds * 20 {
			b.update(t, objectOf(inline, "a", 1))
			time.Sleep(time.Second / 20)
		}
		assert.LessOrEqual(t, b.patches(), 2*seconds+4, "the replica's and the leader's")
		time.Sleep(5 * time.Second)
		assert.True(t, isTrue(b.status(t), v1alpha1.InForce))
	})
}

func TestAStatusThatCannotBeWrittenIsTriedEverMoreRarelyAndReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leads atomic.Bool
		leads.Store(true)
		b := newBed([]runtime.Object{objectOf(inline, "a", 1)}, replica("webhook-1", "webhook", corev1.PodRunning))
		b.Replica = "webhook-1"
		var denied atomic.Bool
		denied.Store(true)
		b.objects.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			return denied.Load(), nil, errors.New("denied by a policy")
		})
		b.runs(t)
		b.reports(t, &leads)
		time.Sleep(time.Hour)
		assert.Less(t, b.patches(), 2*70, "once a minute each, in the end")
		assert.Equal(t, 2, strings.Count(strings.Join(b.logged(), "\n"), "denied by a policy"), "once by each writer")
		denied.Store(false)
		time.Sleep(2 * time.Minute)
		assert.True(t, isTrue(b.status(t), v1alpha1.InForce))
	})
}

func TestAReplicaWhosePodIsNotFoundOrDoesNotRunCausesNoEndOfWrites(t *testing.T) {
	for name, pods := range map[string][]runtime.Object{
		"there is no Pod":     nil,
		"its Pod starts":      {replica("webhook-1", "webhook", corev1.PodPending)},
		"its Pod has no part": {replica("webhook-1", "other", corev1.PodRunning)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var leads atomic.Bool
				leads.Store(true)
				b := newBed([]runtime.Object{objectOf(inline, "a", 1)}, pods...)
				b.Replica = "webhook-1"
				b.runs(t)
				b.reports(t, &leads)
				time.Sleep(10 * time.Second)
				writes := b.patches()
				time.Sleep(time.Hour)
				assert.Equal(t, writes, b.patches())
				assert.Equal(t, map[string]int64{"webhook-1": 1}, b.status(t).ReadBy)
			})
		})
	}
}
