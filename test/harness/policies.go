package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// Names of the guard policies and of their bindings.
const (
	guardName = "nodekeep-guard"
	stripName = "nodekeep-strip"
)

// guardProbe is the Node by which one sees what the API server does with a kubelet's annotations.
const guardProbe = "guard-probe"

// GuardsOff deletes the guard policies and returns when that is in effect.
func (i *Installation) GuardsOff(ctx context.Context) error {
	admission := i.Admin.AdmissionregistrationV1()
	for name, remove := range map[string][]func(context.Context, string, metav1.DeleteOptions) error{
		guardName: {admission.ValidatingAdmissionPolicyBindings().Delete, admission.ValidatingAdmissionPolicies().Delete},
		stripName: {admission.MutatingAdmissionPolicyBindings().Delete, admission.MutatingAdmissionPolicies().Delete},
	} {
		for _, remove := range remove {
			if err := remove(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete guard policy: %w", err)
			}
		}
	}
	return i.guarded(ctx, false)
}

// GuardsOn puts the guard policies in place as they are shipped and returns when they are in effect.
func (i *Installation) GuardsOn(ctx context.Context) error {
	if err := i.apply(ctx, manifest, "--force-conflicts", "-l", "app.kubernetes.io/component=guards"); err != nil {
		return err
	}
	return i.guarded(ctx, true)
}

// WithoutGuards does something while the guard policies do not exist and both processes have started without them.
func (i *Installation) WithoutGuards(ctx context.Context, fn func()) (err error) {
	if err := i.restarted(ctx, i.GuardsOff); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.restarted(context.WithoutCancel(ctx), i.GuardsOn)) }()
	fn()
	return nil
}

// restarted changes something while both processes are stopped.
func (i *Installation) restarted(ctx context.Context, change func(context.Context) error) error {
	if err := errors.Join(i.StopCapture(), i.StopWebhook()); err != nil {
		return err
	}
	if err := change(ctx); err != nil {
		return err
	}
	return i.Start(ctx)
}

// guarded waits until the API server denies a kubelet nodekeep's annotations at CREATE and at UPDATE. If want is false, it waits until they are
// allowed.
func (i *Installation) guarded(ctx context.Context, want bool) error {
	client, err := kubernetes.NewForConfig(i.Cluster.Kubelet(guardProbe))
	if err != nil {
		return fmt.Errorf("make kubelet client: %w", err)
	}
	nodes, key := client.CoreV1().Nodes(), "nodekeep.dev/probe"
	node := Registration(guardProbe)
	if _, err := nodes.Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("register probe: %w", err)
	}
	defer func() {
		_ = i.Admin.CoreV1().Nodes().Delete(context.WithoutCancel(ctx), guardProbe, metav1.DeleteOptions{})
	}()
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		_, err := nodes.Patch(ctx, guardProbe, types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+key+`":"x"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && !apierrors.IsInvalid(err) {
			return false, err
		}
		return (err != nil) == want, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the guard policy is in force: %t: %w", want, err)
	}
	if err := i.Admin.CoreV1().Nodes().Delete(ctx, guardProbe, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete probe: %w", err)
	}
	node.Annotations = map[string]string{key: "x"}
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		created, err := nodes.Create(ctx, node, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false, err
		}
		_, kept := created.Annotations[key]
		return kept != want, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the strip policy is in force: %t: %w", want, err)
	}
	return nil
}

// offSwitch is the RoleBinding without which the API server gates no Node.
const offSwitch = "nodekeep-gate"

// GateOff turns the gate policy's off switch. API servers notice within moments.
func (i *Installation) GateOff(ctx context.Context) error {
	if err := i.Admin.RbacV1().RoleBindings(Namespace).Delete(ctx, offSwitch, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("switch gate policy off: %w", err)
	}
	return nil
}

// GateOn puts everything of the gate policy in place that is not.
func (i *Installation) GateOn(ctx context.Context) error {
	return i.apply(ctx, manifest, "-l", "app.kubernetes.io/component=gate")
}

// WithInline does something while protected labels are restored in the CREATE itself, as the policy says. The self-test has proved that then.
func (i *Installation) WithInline(t testing.TB, fn func()) {
	t.Helper()
	reinstall := func(ctx context.Context, further ...string) {
		require.NoError(t, i.StopWebhook())
		require.NoError(t, i.Reapply(ctx, further...))
		require.NoError(t, i.StartWebhook(ctx))
	}
	defer reinstall(context.WithoutCancel(t.Context()))
	reinstall(t.Context(), inlineManifest)
	require.Eventually(t, func() bool {
		_, body := Readiness(i.ReadyURL("webhook"))
		return strings.Contains(body, "[+] protected labels: inline")
	}, Settles, 20*time.Millisecond, "the self-test must prove the inline route")
	fn()
}
