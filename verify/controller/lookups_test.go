package controller

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/verify"
)

// daemonPod returns a Ready Pod of the DaemonSet kube-system/cni on the Node n1, unless change says otherwise.
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
	for name, row := range map[string]struct {
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
			l := &lookups{client: fake.NewSimpleClientset(daemonPod(row.change)), now: time.Now, services: map[string]*lookup{}}
			ready, err := l.daemonSets(t.Context(), []string{cni}, &verify.Node{Name: "n1"})
			require.NoError(t, err)
			assert.Equal(t, row.ready, ready[cni])
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
	ready, err := l.daemonSets(t.Context(), []string{"kube-system/cni", "kube-system/proxy", "gpu/driver", "gpu/cni"}, &verify.Node{Name: "n1"})
	require.NoError(t, err)
	assert.Equal(t, map[string]bool{"kube-system/cni": true, "kube-system/proxy": true, "gpu/driver": true}, ready)
	assert.Equal(t, []string{"kube-system spec.nodeName=n1", "gpu spec.nodeName=n1"}, asked)

	client.PrependReactor("list", "pods", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no answer") })
	_, err = l.daemonSets(t.Context(), []string{"kube-system/cni"}, &verify.Node{Name: "n1"})
	assert.ErrorContains(t, err, "kube-system/cni")
}

func TestEachDaemonSetOfANamespaceThatRunsOnTheNodeIsLookedUp(t *testing.T) {
	daemonSet := func(name string, change func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
		daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
		daemonSet.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		if change != nil {
			change(daemonSet)
		}
		return daemonSet
	}
	client := fake.NewSimpleClientset(
		daemonPod(nil),
		daemonSet("cni", nil),
		daemonSet("proxy", nil),
		daemonSet("windows", func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "windows"}
		}),
		daemonSet("workload", func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Tolerations = nil }),
		daemonSet("deleted", func(d *appsv1.DaemonSet) { d.DeletionTimestamp, d.Finalizers = new(metav1.Now()), []string{"x/y"} }),
		daemonSet("elsewhere", func(d *appsv1.DaemonSet) { d.Namespace = "default" }),
	)
	lists := 0
	client.PrependReactor("list", "daemonsets", func(k8stesting.Action) (bool, runtime.Object, error) { lists++; return false, nil, nil })
	now := time.Now()
	l := &lookups{client: client, now: func() time.Time { return now }, services: map[string]*lookup{}}
	closed := []corev1.Taint{{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}}
	for range 2 {
		ready, err := l.daemonSets(t.Context(), []string{"kube-system/*"}, &verify.Node{Name: "n1", Taints: closed})
		require.NoError(t, err)
		assert.Equal(t, map[string]bool{"kube-system/*": true, "kube-system/cni": true, "kube-system/proxy": false}, ready)
	}
	ready, err := l.daemonSets(t.Context(), []string{"kube-system/*"}, &verify.Node{Name: "n2", Labels: map[string]string{"kubernetes.io/os": "windows"}, Taints: closed})
	require.NoError(t, err)
	assert.Equal(t, map[string]bool{"kube-system/*": true, "kube-system/cni": false, "kube-system/proxy": false, "kube-system/windows": false}, ready)
	assert.Equal(t, 1, lists, "Nodes share a lookup")
	ready, err = l.daemonSets(t.Context(), []string{"kube-systems/*"}, &verify.Node{Name: "n1", Taints: closed})
	require.NoError(t, err)
	assert.Empty(t, ready, "a namespace without DaemonSets, or one that is spelt otherwise, proves nothing")

	now = now.Add(lookupLasts)
	client.PrependReactor("list", "daemonsets", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no answer") })
	_, err = l.daemonSets(t.Context(), []string{"kube-system/*"}, &verify.Node{Name: "n1"})
	assert.ErrorContains(t, err, "look up DaemonSets of namespace kube-system: no answer")
}

func TestEachDaemonSetOfTheClusterThatRunsOnTheNodeIsLookedUpWithOneListOfEachKind(t *testing.T) {
	daemonSet := func(namespace, name string, tolerations ...corev1.Toleration) *appsv1.DaemonSet {
		daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		daemonSet.Spec.Template.Spec.Tolerations = tolerations
		return daemonSet
	}
	all := corev1.Toleration{Operator: corev1.TolerationOpExists}
	client := fake.NewSimpleClientset(
		daemonPod(nil),
		daemonPod(func(p *corev1.Pod) { p.Name, p.Spec.NodeName, p.OwnerReferences[0].Name = "proxy-2", "n2", "proxy" }),
		daemonPod(func(p *corev1.Pod) { p.Namespace, p.OwnerReferences[0].Name = "storage", "csi" }),
		daemonSet("kube-system", "cni", all), daemonSet("kube-system", "proxy", all),
		daemonSet("storage", "csi", all), daemonSet("storage", "cni", all), // another one of that name
		daemonSet("default", "workload"),
	)
	asked := map[string]int{}
	client.PrependReactor("list", "*", func(action k8stesting.Action) (bool, runtime.Object, error) {
		list := action.(k8stesting.ListActionImpl)
		asked[action.GetResource().Resource+" in "+action.GetNamespace()+" of "+list.GetListRestrictions().Fields.String()+" from "+list.ListOptions.ResourceVersion]++
		return false, nil, nil
	})
	now := time.Now()
	l := &lookups{client: client, now: func() time.Time { return now }, services: map[string]*lookup{}}
	closed := []corev1.Taint{{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}}
	for name, want := range map[string]map[string]bool{
		"n1": {"auto": true, "kube-system/cni": true, "kube-system/proxy": false, "storage/csi": true, "storage/cni": false},
		"n2": {"auto": true, "kube-system/cni": false, "kube-system/proxy": true, "storage/csi": false, "storage/cni": false},
	} {
		ready, err := l.daemonSets(t.Context(), []string{"auto"}, &verify.Node{Name: name, Taints: closed})
		require.NoError(t, err)
		assert.Equal(t, want, ready, name)
	}
	assert.Equal(t, map[string]int{"daemonsets in  of  from 0": 1, "pods in  of spec.nodeName=n1 from 0": 1, "pods in  of spec.nodeName=n2 from 0": 1}, asked,
		"Nodes share the list of DaemonSets, and only Pods of one Node are read")

	ready, err := l.daemonSets(t.Context(), []string{"default/workload", "auto"}, &verify.Node{Name: "n1", Taints: closed})
	require.NoError(t, err)
	assert.False(t, ready["default/workload"], "it is named, so the Node waits for it")
	assert.True(t, ready["auto"])

	now = now.Add(lookupLasts)
	client.PrependReactor("list", "daemonsets", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no answer") })
	_, err = l.daemonSets(t.Context(), []string{"auto"}, &verify.Node{Name: "n1"})
	assert.ErrorContains(t, err, "look up DaemonSets of all namespaces: no answer")
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
	b.reacts("list", "pods", func(action k8stesting.Action) (bool, runtime.Object, error) {
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

func TestANodeOfAProfileWithoutChecksOpensWithoutAWorkerPod(t *testing.T) {
	b := newBed(t)
	b.use(func(profile *verify.Profile) {
		profile.Checks, profile.Wait.DaemonSets = nil, []string{"kube-system/cni"}
	})
	notReady := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	require.NoError(t, b.client.Tracker().Add(daemonPod(notReady)))
	b.register("n1", passes)
	asked := make(chan struct{}, 1000)
	b.reacts("list", "pods", func(action k8stesting.Action) (bool, runtime.Object, error) {
		if action.(k8stesting.ListAction).GetListRestrictions().Fields.String() == "spec.nodeName=n1" {
			asked <- struct{}{}
		}
		return false, nil, nil
	})
	_, stop := b.process()
	defer stop()
	<-asked
	<-asked // the first decision is over
	assert.False(t, isOpen(b.node("n1")))

	require.NoError(t, b.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), daemonPod(nil), "kube-system"))
	b.waitFor("the Node must open", func() bool { return isOpen(b.node("n1")) })
	assert.Equal(t, "true", b.node("n1").Labels[verify.Label])
	assert.Equal(t, verify.VerdictPassed, verify.ParseProgress(b.node("n1").Annotations[verify.Annotation]).Last.Result)
	assert.Contains(t, <-b.events.Events, "What profile all waits for holds")
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.Empty(t, b.pods)
}

// servedBy returns the Service kube-system/kube-dns with one endpoint for each Pod, and one without a Pod.
func servedBy(pods ...*corev1.Pod) []runtime.Object {
	meta := metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns-1", Labels: map[string]string{discoveryv1.LabelServiceName: "kube-dns"}},
		Ports:      []discoveryv1.EndpointPort{{Name: new("dns"), Port: new(int32(53))}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.99"}}},
	}
	all := []runtime.Object{&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.10"}, Ports: []corev1.ServicePort{{Name: "dns", Port: 53}}}}, slice}
	for i, pod := range pods {
		pod.Namespace, pod.Name, pod.UID = "kube-system", fmt.Sprintf("dns-%d", i), types.UID(fmt.Sprintf("uid-%d", i))
		all = append(all, pod)
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.0.0.%d", i)}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		})
	}
	return all
}

func ownedBy(kind string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: "a/v1", Kind: kind, Name: "a", UID: "a", Controller: new(true)}}}}
}

// A kubelet can create mirror Pods on its own Node, in any namespace and with any label and address. NodeRestriction asks for a Node as their owner.
func TestAMirrorPodOfOneKubeletIsAskedByNoOtherNode(t *testing.T) {
	mirror := ownedBy("Node")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "a"}
	forged := ownedBy("ReplicaSet")
	forged.Annotations = mirror.Annotations
	uncontrolled := ownedBy("ReplicaSet")
	uncontrolled.OwnerReferences[0].Controller = nil
	objects := servedBy(ownedBy("ReplicaSet"), mirror, forged, &corev1.Pod{}, uncontrolled, ownedBy("DaemonSet"), ownedBy("ReplicaSet"), ownedBy("ReplicaSet"))
	objects[1].(*discoveryv1.EndpointSlice).Endpoints[7].TargetRef.UID = "another" // of a Pod that had the name before
	client := fake.NewSimpleClientset(objects...)
	require.NoError(t, client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "kube-system", "dns-7"))
	l := &lookups{client: client, now: time.Now, services: map[string]*lookup{}}
	dns, err := l.service(t.Context(), "kube-system/kube-dns")
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"10.0.0.0:53", "10.0.0.5:53", "10.0.0.99:53"}, dns.target(53, "").Endpoints)
}

func TestFewPodsOfAServiceAreRead(t *testing.T) {
	var pods []*corev1.Pod
	for range 500 {
		pods = append(pods, ownedBy("ReplicaSet"))
	}
	client := fake.NewSimpleClientset(servedBy(pods...)...)
	l := &lookups{client: client, now: time.Now, services: map[string]*lookup{}}
	dns, err := l.service(t.Context(), "kube-system/kube-dns")
	require.NoError(t, err)
	assert.Len(t, dns.target(53, "").Endpoints, maxEndpoints)
	assert.Len(t, client.Actions(), 2+maxAsked)

	client.PrependReactor("get", "pods", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no answer") })
	l.services = map[string]*lookup{}
	_, err = l.service(t.Context(), "kube-system/kube-dns")
	assert.ErrorContains(t, err, "kube-system/kube-dns")
}
