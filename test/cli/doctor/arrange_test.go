package doctor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// roll writes what controllers and kubelets would write of a Deployment: that many replicas are available, each a pod with the image.
func roll(t *testing.T, name string, available int, image string) {
	t.Helper()
	deployments := nodekeep.Admin.AppsV1().Deployments(harness.Namespace)
	deployment, err := deployments.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: *deployment.Spec.Replicas, ReadyReplicas: int32(available), AvailableReplicas: int32(available),
	}
	_, err = deployments.UpdateStatus(t.Context(), deployment, metav1.UpdateOptions{})
	require.NoError(t, err)
	for n := range *deployment.Spec.Replicas {
		runPod(t, fmt.Sprintf("%s-%d", name, n), deployment, int(n) < available, image)
	}
}

// runPod writes what a kubelet would write of a pod. It is Pending: no process follows the NodePolicy under its name.
func runPod(t *testing.T, name string, deployment *appsv1.Deployment, ready bool, image string) {
	t.Helper()
	pods := nodekeep.Admin.CoreV1().Pods(harness.Namespace)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: deployment.Spec.Template.Labels}, Spec: deployment.Spec.Template.Spec}
	pod.Spec.PriorityClassName, pod.Spec.Containers[0].Image = "", image
	grace := int64(0)
	err := pods.Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	require.True(t, err == nil || apierrors.IsNotFound(err), err)
	made, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	made.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: made.Spec.Containers[0].Name, Image: image, ImageID: "sha256:" + image, Ready: ready, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}}
	if !ready {
		made.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	}
	_, err = pods.UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// rollAll makes both Deployments as they are where all is well.
func rollAll(t *testing.T) {
	t.Helper()
	roll(t, "nodekeep-webhook", 3, "nodekeep:v1")
	roll(t, "nodekeep-capture", 2, "nodekeep:v1")
}

// removed deletes an object, named as kubectl does, and returns a function that creates it again.
func removed(t *testing.T, object string) (putBack func()) {
	t.Helper()
	var content map[string]any
	require.NoError(t, json.Unmarshal([]byte(run(t, "kubectl get "+object+" -o json")), &content))
	metadata := content["metadata"].(map[string]any)
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
		delete(metadata, field)
	}
	data, err := json.Marshal(content)
	require.NoError(t, err)
	file := fileOf(t, data)
	run(t, "kubectl delete "+object)
	return func() { run(t, "kubectl create -f "+file) }
}

// patch changes an object, named as kubectl does, by a JSON patch.
func patch(t *testing.T, object, operations string) {
	t.Helper()
	run(t, "kubectl patch "+object+" --type=json --patch-file="+fileOf(t, []byte("["+operations+"]")))
}

func fileOf(t *testing.T, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "content")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	return file
}

// register makes a Node as its kubelet does.
func register(t *testing.T, name string) {
	t.Helper()
	_, err := create(t, name, metav1.CreateOptions{})
	require.NoError(t, err)
}

// received waits until the webhook knows that a record cannot be read: a registration returns with its stamp, and with the gate.
func received(t *testing.T, name string) {
	t.Helper()
	harness.Eventually(t, func() bool {
		node, err := create(t, name, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false
		}
		_, stamped := node.Annotations[policy.StampAnnotation]
		return stamped && policy.DefaultGate.Present(node.Spec.Taints)
	}, settles, 50*time.Millisecond)
}

func create(t *testing.T, name string, options metav1.CreateOptions) (*corev1.Node, error) {
	t.Helper()
	client, err := kubernetes.NewForConfig(nodekeep.Cluster.Kubelet(name))
	require.NoError(t, err)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}}}
	return client.CoreV1().Nodes().Create(t.Context(), node, options)
}

// configMap makes a ConfigMap in the namespace of the records.
func configMap(t *testing.T, name string, labels, data map[string]string) {
	t.Helper()
	_, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: data}, metav1.CreateOptions{})
	require.NoError(t, err)
}
