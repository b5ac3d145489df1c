package scheduling

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// podsIn makes a namespace in which pods can be created: the ServiceAccount is the controller manager's work, and none
// runs. Its pods go with the test.
func podsIn(t *testing.T, namespace string) corev1client.PodInterface {
	t.Helper()
	core := nodekeep.Admin.CoreV1()
	_, err := core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = core.ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	pods := core.Pods(namespace)
	t.Cleanup(func() {
		// A bound pod waits for its kubelet to say that it has stopped, unless it is deleted at once; here is no kubelet.
		ctx, now := context.Background(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
		assert.NoError(t, pods.DeleteCollection(ctx, now, metav1.ListOptions{}))
		left, err := pods.List(ctx, metav1.ListOptions{})
		if assert.NoError(t, err) {
			assert.Empty(t, left.Items, "a pod of this test would run on the next one's Nodes")
		}
	})
	return pods
}

// pod returns a pending pod that would run on any Node with a little room and no taint but these, named by their keys.
func pod(name string, tolerated ...string) *corev1.Pod {
	little := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1Mi")}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none", Resources: corev1.ResourceRequirements{Requests: little}}}},
	}
	for _, key := range tolerated {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	return p
}

// withAffinity makes a pod run only on Nodes whose label meets the requirement.
func withAffinity(p *corev1.Pod, label string, operator corev1.NodeSelectorOperator, values ...string) *corev1.Pod {
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: label, Operator: operator, Values: values}}}},
	}}}
	return p
}

// The groups of pods that must never run on a Node here. Each is kept off by one thing alone that the Node carries.
const (
	shunsLabel          = "shuns-label"
	shunsProtectedLabel = "shuns-protected-label"
	shunsKeptTaint      = "shuns-kept-taint"
	shunsRuleTaint      = "shuns-rule-taint"
)

// shunning makes a pod of each group. All of them would run on a Node that is not ready, for none here ever is.
func shunning() map[string]*corev1.Pod {
	return map[string]*corev1.Pod{
		shunsLabel:          withAffinity(pod("", corev1.TaintNodeNotReady, tenant, dedicated), dedicated, corev1.NodeSelectorOpDoesNotExist),
		shunsProtectedLabel: withAffinity(pod("", corev1.TaintNodeNotReady, tenant, dedicated), worker, corev1.NodeSelectorOpDoesNotExist),
		shunsKeptTaint:      pod("", corev1.TaintNodeNotReady, dedicated),
		shunsRuleTaint:      pod("", corev1.TaintNodeNotReady, tenant),
	}
}

// keepComing creates pods of all groups until stop is called or there are most of each. Only new pods keep the scheduler
// trying at every moment: one that it failed to place waits for a second or more.
func keepComing(t *testing.T, pods corev1client.PodInterface, limit int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var groups sync.WaitGroup
	for group, p := range shunning() {
		groups.Go(func() {
			p.Labels = map[string]string{groupLabel: group}
			for n := 0; n < limit && ctx.Err() == nil; n++ {
				p.Name = fmt.Sprintf("%s-%03d", group, n)
				if _, err := pods.Create(t.Context(), p, metav1.CreateOptions{}); !assert.NoError(t, err) {
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	stop = func() { cancel(); groups.Wait() }
	t.Cleanup(stop)
	return stop
}

// groupLabel distinguishes the pods of keepComing from others.
const groupLabel = "group"

// verdict returns why the scheduler left a pod unbound when it last tried; empty when it has not, or has bound the pod.
func verdict(p *corev1.Pod) string {
	for _, condition := range p.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

// bound waits until the scheduler has bound a pod and returns the Node's name.
func bound(t *testing.T, pods corev1client.PodInterface, name string) (node string) {
	t.Helper()
	require.Eventually(t, func() bool {
		p, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		if err == nil {
			node = p.Spec.NodeName
		}
		return node != ""
	}, settles, 20*time.Millisecond, "pod %s must come to be bound", name)
	return node
}
