package harness

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/verify"
)

// WorkerReport is the report of a worker that gives all checks the same outcome.
func WorkerReport(asked []verify.Check, outcome verify.Outcome, reason verify.Reason) string {
	report := verify.Report{Results: []verify.Result{}}
	for _, check := range asked {
		report.Results = append(report.Results, verify.Result{Check: check.Name, Outcome: outcome, Required: true, Reason: reason, Millis: 1})
	}
	return report.Encode(verify.MaxReport)
}

// EndWorker ends a worker Pod as its kubelet does.
func EndWorker(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, message string, code int32) error {
	pod.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: verify.Worker, Image: "i", ImageID: "i", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Completed", Message: message, StartedAt: metav1.Now(), FinishedAt: metav1.Now()},
	}}}
	_, err := client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}
