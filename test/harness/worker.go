package harness

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/verify"
)

// WorkerReport returns the report of a worker that gives all checks the same outcome.
func WorkerReport(asked []verify.Check, outcome verify.Outcome, reason verify.Reason) string {
	report := verify.Report{Results: []verify.Result{}}
	for _, check := range asked {
		report.Results = append(report.Results, verify.Result{Check: check.Name, Outcome: outcome, Required: true, Reason: reason, Millis: 1})
	}
	return report.Encode(verify.MaxReport)
}

// EndWorker ends a worker Pod as its kubelet does.
func EndWorker(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, message string, code int32) error {
	SetEnded(pod, message, code)
	_, err := client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// SetEnded gives a worker Pod the status of one that has ended.
func SetEnded(pod *corev1.Pod, message string, code int32) {
	pod.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: verify.Worker, Image: "i", ImageID: "i", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Completed", Message: message, StartedAt: metav1.Now(), FinishedAt: metav1.Now()},
	}}}
}

// RunWorkers plays the kubelets of all Nodes until the end of the test, as far as worker Pods go. They delete Pods that are being deleted. They give
// each Pod that has not ended the status that the function makes. Where it returns false, they leave the Pod as it is.
func (i *Installation) RunWorkers(t testing.TB, status func(pod *corev1.Pod, task verify.Task) bool) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	admin := i.Cluster.Admin()
	done.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			list, err := i.Admin.CoreV1().Pods(verify.Namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				continue
			}
			for _, pod := range list.Items {
				serveWorker(ctx, admin, &pod, status)
			}
		}
	})
	t.Cleanup(func() { stop(); done.Wait() })
}

// serveWorker acts as the kubelet of the Pod's Node. Errors are those of a Pod that was deleted meanwhile.
func serveWorker(ctx context.Context, admin *rest.Config, pod *corev1.Pod, status func(*corev1.Pod, verify.Task) bool) {
	config := rest.CopyConfig(admin) // all share its connections
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + pod.Spec.NodeName, Groups: []string{"system:nodes"}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return
	}
	pods := client.CoreV1().Pods(pod.Namespace)
	if pod.DeletionTimestamp != nil {
		_ = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		return
	}
	if len(pod.Spec.Containers[0].Env) == 0 || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	if task, err := verify.ParseTask(pod.Spec.Containers[0].Env[0].Value); err == nil && status(pod, task) {
		_, _ = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	}
}
