//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// patience is how long anything may take on a slow cluster: pulling images, rolling pods, the uninstall.
const patience = 5 * time.Minute

// The Deployments of the chart.
const (
	webhookName = "nodekeep-webhook"
	captureName = "nodekeep-capture"
)

// baseValues returns the chart's values that the tests go by. What they add selects the suite's Nodes only.
func (c *cluster) baseValues() map[string]any {
	image := map[string]any{"pullPolicy": c.pullPolicy}
	if c.image != "" {
		image["repository"], image["tag"] = c.image, c.tag
	}
	return map[string]any{
		"image": image,
		"policy": map[string]any{"taints": map[string]any{
			"register": []any{map[string]any{"taint": unverified, "nodeSelector": mark + "," + domain + "verify=yes"}},
			"rules":    []any{map[string]any{"selector": domain + "dedicated", "taint": domain + "dedicated={value}:NoSchedule"}},
		}},
		"uninstall": map[string]any{"patienceSeconds": 5},
	}
}

// upgrade installs or upgrades the release and waits until helm takes it for ready.
func (c *cluster) upgrade(t *testing.T, values map[string]any) {
	t.Helper()
	encoded, err := yaml.Marshal(values)
	require.NoError(t, err)
	file := filepath.Join(c.home, "values.yaml")
	require.NoError(t, os.WriteFile(file, encoded, 0o600))
	args := append([]string{"upgrade", "--install", release, harness.Chart(), "--namespace", namespace, "--values", file, "--wait", "--timeout", patience.String()}, c.helmArgs...)
	if _, err = c.runHelm(t.Context(), args...); err != nil {
		t.Fatalf("%v\n%s", err, c.diagnose(t))
	}
}

// diagnose says what helm does not: how the pods are, and what they printed last.
func (c *cluster) diagnose(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for _, name := range []string{webhookName, captureName} {
		for _, pod := range c.pods(t, name) {
			fmt.Fprintf(&out, "pod %s: %s\n", pod.Name, pod.Status.Phase)
			for _, condition := range pod.Status.Conditions {
				if condition.Status != corev1.ConditionTrue {
					fmt.Fprintf(&out, "  not %s: %s %s\n", condition.Type, condition.Reason, condition.Message)
				}
			}
			for _, status := range pod.Status.ContainerStatuses {
				fmt.Fprintf(&out, "  container %s: %d restarts, %+v\n", status.Name, status.RestartCount, status.State)
			}
			fmt.Fprintf(&out, "  log: %s\n", logs(t.Context(), pod.Name))
		}
	}
	return out.String()
}

// uninstall takes the release off the cluster, hooks included, and returns what helm prints.
func (c *cluster) uninstall(ctx context.Context, args ...string) (string, error) {
	return c.runHelm(ctx, append([]string{"uninstall", release, "--namespace", namespace, "--wait", "--timeout", patience.String()}, args...)...)
}

// runHelm runs helm with folders of its own; credentials are found where the user's environment says.
func (c *cluster) runHelm(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, c.helm, args...)
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+c.home, "HELM_CONFIG_HOME="+c.home, "HELM_DATA_HOME="+c.home, "HELM_NAMESPACE=", "HELM_DRIVER=")
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, out.String())
	}
	return out.String(), nil
}

// scale sets the replicas of a Deployment, waits until so many run and no other, and returns how many there were.
func (c *cluster) scale(t *testing.T, name string, replicas int32) (prev int32) {
	t.Helper()
	deployments := c.admin.AppsV1().Deployments(namespace)
	scale, err := deployments.GetScale(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	prev, scale.Spec.Replicas, scale.ResourceVersion = scale.Spec.Replicas, replicas, ""
	_, err = deployments.UpdateScale(t.Context(), name, scale, metav1.UpdateOptions{})
	require.NoError(t, err)
	c.rolledOut(t, name)
	return prev
}

// rolledOut waits until a Deployment runs what it should and nothing else: no pod of it is left that ends.
func (c *cluster) rolledOut(t *testing.T, name string) {
	t.Helper()
	var last string
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		deployment, err := c.admin.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			last = err.Error()
			return false, nil //nolint:nilerr // not yet
		}
		pods := len(c.pods(t, name))
		last = fmt.Sprintf("%d pods, %+v", pods, deployment.Status)
		return complete(deployment) && pods == int(*deployment.Spec.Replicas), nil
	})
	require.NoError(t, err, "wait for deployment %s; last seen: %s", name, last)
}

func complete(d *appsv1.Deployment) bool {
	want := *d.Spec.Replicas
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == want && d.Status.AvailableReplicas == want && d.Status.Replicas == want
}

// pods returns those of a Deployment.
func (c *cluster) pods(t *testing.T, deployment string) []corev1.Pod {
	t.Helper()
	component := strings.TrimPrefix(deployment, "nodekeep-")
	list, err := c.admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=nodekeep,app.kubernetes.io/component=" + component})
	require.NoError(t, err)
	return list.Items
}

// called waits until the API servers call the webhook: dry runs show its stamp, whichever of them answers.
func (c *cluster) called(t *testing.T) {
	t.Helper()
	newKubelet(t, "probe").dryRuns(t, "the API server must call the webhook", func(node *corev1.Node) error {
		if node.Annotations[policy.StampAnnotation] == "" {
			return errors.New("a dry-run CREATE returned without the webhook's stamp")
		}
		return nil
	})
}

// gated says whether the gate policy is on the cluster.
func (c *cluster) gated(t *testing.T) bool {
	t.Helper()
	_, err := c.admin.AdmissionregistrationV1().MutatingAdmissionPolicies().Get(t.Context(), "nodekeep-gate", metav1.GetOptions{})
	require.True(t, err == nil || apierrors.IsNotFound(err), "%v", err)
	return err == nil
}
