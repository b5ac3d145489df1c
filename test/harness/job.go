package harness

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// RunUninstallJob stands in for the kubelet and the Job controller during `helm uninstall`. It waits for the Job and runs the program with the Job's
// arguments and the rights of its ServiceAccount. Then it marks the Job as complete. It returns what the program printed.
func RunUninstallJob(ctx context.Context, c *Cluster, binary, namespace string) (string, error) {
	admin, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		return "", fmt.Errorf("make admin client: %w", err)
	}
	var job *batchv1.Job
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		job, err = admin.BatchV1().Jobs(namespace).Get(ctx, "nodekeep-uninstall", metav1.GetOptions{})
		return err == nil, nil
	})
	if err != nil {
		return "", fmt.Errorf("wait for the uninstall Job: %w", err)
	}
	config, err := c.ServiceAccount(ctx, namespace, job.Spec.Template.Spec.ServiceAccountName)
	if err != nil {
		return "", err
	}
	kubeconfig := filepath.Join(c.Dir(), "nodekeep-uninstall.kubeconfig")
	if err := WriteKubeconfig(kubeconfig, config); err != nil {
		return "", err
	}
	args := append(slices.Clone(job.Spec.Template.Spec.Containers[0].Args), "--kubeconfig", kubeconfig, "--settle", "1s", "--patience", "1s")
	out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("run the uninstall Job: %w\n%s", err, out)
	}
	now := metav1.Now()
	job.Status.StartTime, job.Status.CompletionTime, job.Status.Succeeded = &job.CreationTimestamp, &now, 1
	for _, condition := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	if _, err := admin.BatchV1().Jobs(namespace).UpdateStatus(ctx, job, metav1.UpdateOptions{}); err != nil {
		return string(out), fmt.Errorf("complete the uninstall Job: %w", err)
	}
	return string(out), nil
}
