package scheduling

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespace makes one in which pods can be created: the ServiceAccount is the controller manager's work, and none runs.
// Its pods go with the test.
func namespace(t *testing.T, name string) {
	t.Helper()
	core := nodekeep.Admin.CoreV1()
	_, err := core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = core.ServiceAccounts(name).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		// A bound pod waits for its kubelet to say that it has stopped; these have none.
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
		assert.NoError(t, core.Pods(name).DeleteCollection(context.Background(), now, metav1.ListOptions{}))
		assert.Eventually(t, func() bool {
			left, err := core.Pods(name).List(context.Background(), metav1.ListOptions{Limit: 1})
			return err == nil && len(left.Items) == 0
		}, settles, 50*time.Millisecond, "all pods must be gone")
	})
}

// pod is a pending pod that would run on any Node with a little room.
func pod(name string) *corev1.Pod {
	little := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none", Resources: corev1.ResourceRequirements{Requests: little}}}},
	}
}

// toleratingNotReady lets a pod run on a Node that is not ready, and on none with any other taint. The tolerations of
// NoExecute that the API server adds by default do not help against NoSchedule.
func toleratingNotReady(p *corev1.Pod) *corev1.Pod {
	p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	return p
}

// onlyWhere confines a pod to Nodes with the label key, or, with DoesNotExist, to those without.
func onlyWhere(p *corev1.Pod, key string, operator corev1.NodeSelectorOperator) *corev1.Pod {
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator}}}},
	}}}
	return p
}

// bound waits until the scheduler has bound a pod and returns the Node's name.
func bound(t *testing.T, namespace, name string) (node string) {
	t.Helper()
	require.Eventually(t, func() bool {
		p, err := nodekeep.Admin.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		node = p.Spec.NodeName
		return node != ""
	}, settles, 20*time.Millisecond, "pod %s must come to be bound", name)
	return node
}

// verdict is the scheduler's reason for leaving a pod where it is; empty before it has tried and once the pod is bound.
func verdict(p *corev1.Pod) string {
	for _, condition := range p.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

// keepComing creates pods that shun the labels, in turn, until stop is called or there are most of them. Only new pods
// keep the scheduler trying at every moment: one that failed waits in a backoff of seconds.
func keepComing(t *testing.T, namespace string, most int, every time.Duration) (stop func()) {
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for n := range most {
			key := []string{isolated, worker}[n%2]
			name := fmt.Sprintf("shuns-%s-%04d", strings.ReplaceAll(key[strings.LastIndex(key, "/")+1:], ".", "-"), n)
			_, err := nodekeep.Admin.CoreV1().Pods(namespace).Create(t.Context(), onlyWhere(toleratingNotReady(pod(name)), key, corev1.NodeSelectorOpDoesNotExist), metav1.CreateOptions{})
			if !assert.NoError(t, err) {
				return
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	return func() { close(done); ended.Wait() }
}
