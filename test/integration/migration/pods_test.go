package migration

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
)

const namespace = "default"

// podTemplate is of Pods that run anywhere, taints or not: no kubelet reports that a Node is ready.
func podTemplate(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			Containers:  []corev1.Container{{Name: "c", Image: "none"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
}

func selectorOf(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// startWorkloads creates a DaemonSet and a Deployment that select on a key.
func startWorkloads(t *testing.T, key string) {
	t.Helper()
	agents := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec: appsv1.DaemonSetSpec{
			Selector: selectorOf("agent"), Template: podTemplate("agent"),
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromString("100%"))}},
		},
	}
	agents.Spec.Template.Spec.NodeSelector = map[string]string{key: daemonValue}
	_, err := nodekeep.Admin.AppsV1().DaemonSets(namespace).Create(t.Context(), agents, metav1.CreateOptions{})
	require.NoError(t, err)

	training := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "training"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(deploymentPods)), Selector: selectorOf("training"), Template: podTemplate("training"),
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
		},
	}
	training.Spec.Template.Spec.Affinity = affinityTo(key)
	_, err = nodekeep.Admin.AppsV1().Deployments(namespace).Create(t.Context(), training, metav1.CreateOptions{})
	require.NoError(t, err)
}

func affinityTo(key string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpExists}}}},
	}}}
}

// moveWorkloads has them select on another key, as an operator does; their controllers replace the Pods.
func moveWorkloads(t *testing.T, key string) {
	t.Helper()
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error { // their controllers write them too
		agents, err := nodekeep.Admin.AppsV1().DaemonSets(namespace).Get(t.Context(), "agent", metav1.GetOptions{})
		require.NoError(t, err)
		agents.Spec.Template.Spec.NodeSelector = map[string]string{key: daemonValue}
		_, err = nodekeep.Admin.AppsV1().DaemonSets(namespace).Update(t.Context(), agents, metav1.UpdateOptions{})
		return err
	}))
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		training, err := nodekeep.Admin.AppsV1().Deployments(namespace).Get(t.Context(), "training", metav1.GetOptions{})
		require.NoError(t, err)
		training.Spec.Template.Spec.Affinity = affinityTo(key)
		_, err = nodekeep.Admin.AppsV1().Deployments(namespace).Update(t.Context(), training, metav1.UpdateOptions{})
		return err
	}))
}

// podsOf returns the Pods that are bound, by UID.
func podsOf(t *testing.T) map[string]corev1.Pod {
	t.Helper()
	list, err := nodekeep.Admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	found := map[string]corev1.Pod{}
	for _, pod := range list.Items {
		if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			found[string(pod.UID)] = pod
		}
	}
	return found
}

// deletions are the Pods that a client deleted, as a kubelet learns of it.
type deletions struct {
	mu      sync.Mutex
	deleted map[string]string // Node, by UID
}

func (d *deletions) all() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.deleted)
}

// playKubelets ends the Pods that are deleted, as their kubelets would, until the test ends, and notes them.
func playKubelets(t *testing.T) *deletions {
	t.Helper()
	d := &deletions{deleted: map[string]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	pods := nodekeep.Admin.CoreV1().Pods(namespace)
	went := func(pod *corev1.Pod) {
		d.mu.Lock()
		d.deleted[string(pod.UID)] = pod.Spec.NodeName
		d.mu.Unlock()
	}
	go func() {
		defer close(ended)
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			events, err := pods.Watch(ctx, metav1.ListOptions{}) // begins with all that are there
			if err != nil {
				continue
			}
			for event := range events.ResultChan() {
				pod, ok := event.Object.(*corev1.Pod)
				if !ok || event.Type != watch.Deleted && pod.DeletionTimestamp == nil {
					continue
				}
				went(pod)
				if event.Type != watch.Deleted {
					_ = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
				}
			}
		}
	}()
	return d
}
