package controller

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/verify"
)

// daemonPod is a Ready Pod of the DaemonSet kube-system/cni on the Node n1, unless change says otherwise.
func daemonPod(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "cni-1",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "cni", UID: "d1", Controller: new(true)}},
		},
		Spec:   corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

func TestADaemonSetIsReadyOnANodeOnlyByItsOwnReadyPodThere(t *testing.T) {
	const cni = "kube-system/cni"
	for name, one := range map[string]struct {
		change func(*corev1.Pod)
		ready  bool
	}{
		"a Ready Pod":                {nil, true},
		"not Ready":                  {func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, false},
		"no condition yet":           {func(p *corev1.Pod) { p.Status.Conditions = nil }, false},
		"on another Node":            {func(p *corev1.Pod) { p.Spec.NodeName = "n2" }, false},
		"is being deleted":           {func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = new(metav1.Now()), []string{"x/y"} }, false},
		"of another DaemonSet":       {func(p *corev1.Pod) { p.OwnerReferences[0].Name = "cni-2" }, false},
		"of a ReplicaSet":            {func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" }, false},
		"owner is not in control":    {func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, false},
		"no owner":                   {func(p *corev1.Pod) { p.OwnerReferences = nil }, false},
		"same name, other namespace": {func(p *corev1.Pod) { p.Namespace = "default" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := &lookups{client: fake.NewSimpleClientset(daemonPod(one.change)), now: time.Now, services: map[string]*lookup{}}
			ready, err := l.daemonSets(t.Context(), []string{cni}, "n1")
			require.NoError(t, err)
			assert.Equal(t, one.ready, ready[cni])
		})
	}
}

func TestDaemonSetsOfTwoNamespacesAreReadWithOneListEach(t *testing.T) {
	client := fake.NewSimpleClientset(
		daemonPod(nil),
		daemonPod(func(p *corev1.Pod) { p.Name, p.OwnerReferences[0].Name = "proxy-1", "proxy" }),
		daemonPod(func(p *corev1.Pod) { p.Namespace, p.OwnerReferences[0].Name = "gpu", "driver" }),
		daemonPod(func(p *corev1.Pod) { p.Name, p.Spec.NodeName = "cni-2", "n2" }),
	)
	var asked []string
	client.PrependReactor("list", "pods", func(action k8stesting.Action) (bool, runtime.Object, error) {
		asked = append(asked, action.GetNamespace()+" "+action.(k8stesting.ListAction).GetListRestrictions().Fields.String())
		return false, nil, nil
	})
	l := &lookups{client: client, now: time.Now, services: map[string]*lookup{}}
	ready, err := l.daemonSets(t.Context(), []string{"kube-system/cni", "kube-system/proxy", "gpu/driver", "gpu/cni"}, "n1")
	require.NoError(t, err)
	assert.Equal(t, map[string]bool{"kube-system/cni": true, "kube-system/proxy": true, "gpu/driver": true}, ready)
	assert.Equal(t, []string{"kube-system spec.nodeName=n1", "gpu spec.nodeName=n1"}, asked)

	client.PrependReactor("list", "pods", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no answer") })
	_, err = l.daemonSets(t.Context(), []string{"kube-system/cni"}, "n1")
	assert.ErrorContains(t, err, "kube-system/cni")
}

func TestANodeStartsItsWorkerPodOnceThePodOfTheDaemonSetIsReady(t *testing.T) {
	b := newBed(t)
	b.use(func(profile *verify.Profile) { profile.Wait.DaemonSets = []string{"kube-system/cni"} })
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	notReady := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	require.NoError(t, b.client.Tracker().Add(daemonPod(notReady)))
	require.NoError(t, b.client.Tracker().Add(daemonPod(func(p *corev1.Pod) { p.Name, p.Spec.NodeName = "cni-2", "n2" })))
	b.register("n1", passes)
	b.register("n2", passes)
	var asked atomic.Int64 // lists of Pods of DaemonSets on n1
	b.client.PrependReactor("list", "pods", func(action k8stesting.Action) (bool, runtime.Object, error) {
		if action.(k8stesting.ListAction).GetListRestrictions().Fields.String() == "spec.nodeName=n1" {
			asked.Add(1)
		}
		return false, nil, nil
	})
	_, stop := b.process()
	defer stop()
	b.waitFor("the Node whose Pod is Ready must open", func() bool { return isOpen(b.node("n2")) })
	b.waitFor("the first decision about the Node that waits must be over", func() bool { return asked.Load() >= 2 })
	b.mu.Lock()
	assert.Len(t, b.pods, 1, "only the Node whose Pod is Ready starts a worker Pod")
	b.mu.Unlock()
	assert.False(t, isOpen(b.node("n1")))

	require.NoError(t, b.client.Tracker().Update(pods, daemonPod(nil), "kube-system"))
	b.waitFor("the Node must open by itself", func() bool { return isOpen(b.node("n1")) })
}
