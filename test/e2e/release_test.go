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
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
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

// baseValues are the chart's values that the tests go by. What they add selects the suite's Nodes only.
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
func (c *cluster) upgrade(ctx context.Context, values map[string]any) error {
	encoded, err := yaml.Marshal(values)
	if err != nil {
		return fmt.Errorf("encode values: %w", err)
	}
	file := filepath.Join(c.home, "values.yaml")
	if err := os.WriteFile(file, encoded, 0o600); err != nil {
		return fmt.Errorf("write values: %w", err)
	}
	args := append([]string{"upgrade", "--install", release, harness.Chart(), "--namespace", namespace, "--values", file, "--wait", "--timeout", patience.String()}, c.helmArgs...)
	if _, err = c.runHelm(ctx, args...); err != nil {
		return fmt.Errorf("%w\n%s", err, c.diagnose(context.WithoutCancel(ctx)))
	}
	return nil
}

// diagnose says what helm does not: how the pods are, and what they printed last.
func (c *cluster) diagnose(ctx context.Context) string {
	var said strings.Builder
	for _, name := range []string{webhookName, captureName} {
		pods, err := c.pods(ctx, name)
		if err != nil {
			return err.Error()
		}
		for _, pod := range pods {
			fmt.Fprintf(&said, "pod %s: %s\n", pod.Name, pod.Status.Phase)
			for _, condition := range pod.Status.Conditions {
				if condition.Status != corev1.ConditionTrue {
					fmt.Fprintf(&said, "  not %s: %s %s\n", condition.Type, condition.Reason, condition.Message)
				}
			}
			for _, status := range pod.Status.ContainerStatuses {
				fmt.Fprintf(&said, "  container %s: %d restarts, %+v\n", status.Name, status.RestartCount, status.State)
			}
			fmt.Fprintf(&said, "  log: %s\n", logs(ctx, pod.Name))
		}
	}
	return said.String()
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

// released says whether helm knows the release.
func (c *cluster) released(ctx context.Context) (bool, error) {
	out, err := c.runHelm(ctx, "list", "--all-namespaces", "--filter", "^"+release+"$", "--short", "--namespace", namespace)
	return strings.TrimSpace(out) != "", err
}

// scale sets the replicas of a Deployment, waits until so many run and no other, and returns how many there were.
func (c *cluster) scale(ctx context.Context, name string, replicas int32) (before int32, err error) {
	deployments := c.admin.AppsV1().Deployments(namespace)
	old, err := deployments.GetScale(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("read scale of %s: %w", name, err)
	}
	_, err = deployments.UpdateScale(ctx, name, &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}, metav1.UpdateOptions{})
	if err != nil {
		return 0, fmt.Errorf("scale %s: %w", name, err)
	}
	return old.Spec.Replicas, c.rolledOut(ctx, name)
}

// rolledOut waits until a Deployment runs what it should and nothing else: no pod of it is left that ends.
func (c *cluster) rolledOut(ctx context.Context, name string) error {
	var last string
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		deployment, err := c.admin.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			last = err.Error()
			return false, nil //nolint:nilerr // not yet
		}
		pods, err := c.pods(ctx, name)
		if err != nil {
			last = err.Error()
			return false, nil //nolint:nilerr // not yet
		}
		last = fmt.Sprintf("%d pods, %+v", len(pods), deployment.Status)
		return complete(deployment) && len(pods) == int(*deployment.Spec.Replicas), nil
	})
	if err != nil {
		return fmt.Errorf("wait for deployment %s: %w; last seen: %s", name, err, last)
	}
	return nil
}

func complete(d *appsv1.Deployment) bool {
	want := *d.Spec.Replicas
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == want && d.Status.AvailableReplicas == want && d.Status.Replicas == want
}

// pods are those of a Deployment.
func (c *cluster) pods(ctx context.Context, deployment string) ([]corev1.Pod, error) {
	component := strings.TrimPrefix(deployment, "nodekeep-")
	list, err := c.admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=nodekeep,app.kubernetes.io/component=" + component})
	if err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", deployment, err)
	}
	return list.Items, nil
}

// inARow is how many reviews show the state of all replicas of the webhook, as far as a client can see.
const inARow = 5

// called waits until the API servers call the webhook: several dry runs in a row show its stamp, whichever of them answers.
func (c *cluster) called(ctx context.Context) error {
	kubelet, err := c.kubelet("probe")
	if err != nil {
		return err
	}
	good, last := 0, error(nil)
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		node, err := kubelet.client.CoreV1().Nodes().Create(ctx, kubelet.node(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case err != nil:
			good, last = 0, err
		case node.Annotations[policy.StampAnnotation] == "":
			good, last = 0, errors.New("a dry-run CREATE returned without the webhook's stamp")
		default:
			good++
		}
		return good == inARow, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the API server calls the webhook: %w; last: %w", err, last)
	}
	return nil
}

// gated says whether the gate policy is on the cluster.
func (c *cluster) gated(ctx context.Context) (bool, error) {
	_, err := c.admin.AdmissionregistrationV1().MutatingAdmissionPolicies().Get(ctx, "nodekeep-gate", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for gate policy: %w", err)
	}
	return true, nil
}
