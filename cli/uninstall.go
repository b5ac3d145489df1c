package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/webhook"
)

// The objects that put the gate on new Nodes.
const (
	gateName    = "nodekeep-gate" // the policy's binding, and the RoleBinding that is its off switch
	webhookName = "nodekeep"      // adds the gate where something must wait for capture
)

// maxPasses bounds how often all Nodes are read again for gates that were added meanwhile.
const maxPasses = 10

// uninstalling is one run of `uninstall`.
//
// Gating stops before the first gate is lifted, and Nodes are read once more after the last: no gated Node is left. A Node is changed
// only in the state that was read, and nothing of it but the gate. Running it again does no harm.
type uninstalling struct {
	*cluster
	kubelet kubernetes.Interface // of the self-test's Node, for dry runs only
	// settle is for how long no dry run must have been gated until every API server is taken to have noticed.
	settle time.Duration
	// patience is how long capture is given to complete Nodes before their gates are lifted.
	patience time.Duration
}

func newUninstallCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	var settle, patience, timeout time.Duration
	command := o.command(&cobra.Command{
		Use:   "uninstall [flags]",
		Short: "Stop gating and free every Node, before nodekeep is deleted",
		Long: `Uninstall must run before nodekeep is deleted. Otherwise Nodes stay behind a gate that nothing lifts.

It deletes the objects that put the gate on new Nodes, waits until no API server does so any more, gives capture time to complete the
Nodes that are behind the gate, and lifts the gate of the remaining ones. Then it deletes the guard policies. A Job of
"helm uninstall" runs it, so it does not ask. It deletes neither the processes nor the records.`,
		Example: `
			# Before the manifests are deleted
			nodekeep uninstall
			kubectl delete --ignore-not-found -f manifests/nodekeep.yaml`,
		GroupID: groupAct,
		Args:    none,
	}, knowsGate, func(ctx context.Context, c *cluster, _ []string) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		kubelet, err := kubernetes.NewForConfig(webhook.SelfTestKubelet(c.config))
		if err != nil {
			return fmt.Errorf("make a client for dry runs: %w", err)
		}
		return findings((&uninstalling{c, kubelet, settle, patience}).run(ctx))
	})
	flags := command.Flags()
	flags.DurationVar(&settle, "settle", 10*time.Second, "how long no dry run must have been gated until every API server is taken to have noticed")
	flags.DurationVar(&patience, "patience", 30*time.Second, "how long capture is given to complete Nodes behind the gate, before their gates are lifted")
	flags.DurationVar(&timeout, "timeout", 10*time.Minute, "how long all of it may take")
	o.validate = func() error {
		if settle < 0 || patience < 0 || timeout <= 0 {
			return errors.New("--settle and --patience must not be negative, and --timeout must be more than 0")
		}
		return nil
	}
	return command
}

// run ends with the first step that fails. What was done by then stays done.
func (u *uninstalling) run(ctx context.Context) error {
	admission := u.client.AdmissionregistrationV1()
	if err := u.delete(ctx,
		deletion{"MutatingAdmissionPolicyBinding", gateName, admission.MutatingAdmissionPolicyBindings().Delete},
		deletion{"RoleBinding", gateName, u.client.RbacV1().RoleBindings(u.namespace).Delete},
		deletion{"MutatingWebhookConfiguration", webhookName, admission.MutatingWebhookConfigurations().Delete},
	); err != nil {
		return err
	}
	stopped, err := u.untilStopped(ctx)
	if err != nil {
		return err
	}
	if err := u.awaitCapture(ctx); err != nil {
		return err
	}
	freed := 0
	for range maxPasses {
		gated, err := u.gated(ctx)
		if err != nil {
			return err
		}
		if len(gated) == 0 {
			were := map[bool]string{true: "was", false: "were"}[freed == 1]
			_ = u.done("no Node is behind the gate; %s %s freed here", view.Counted(freed, "Node"), were)
			return u.delete(ctx, // the guard policies: capture does not need them any more
				deletion{"MutatingAdmissionPolicyBinding", guard.StripName, admission.MutatingAdmissionPolicyBindings().Delete},
				deletion{"MutatingAdmissionPolicy", guard.StripName, admission.MutatingAdmissionPolicies().Delete},
				deletion{"ValidatingAdmissionPolicyBinding", guard.GuardName, admission.ValidatingAdmissionPolicyBindings().Delete},
				deletion{"ValidatingAdmissionPolicy", guard.GuardName, admission.ValidatingAdmissionPolicies().Delete},
			)
		}
		n, err := u.free(ctx, gated, stopped)
		if freed += n; err != nil {
			return err
		}
	}
	return errors.New("new Nodes keep coming behind the gate: stop the component that adds it (kubelets with --register-with-taints, startupTaints of a provisioner), then run this again")
}

// deletion is an object to delete.
type deletion struct {
	kind, name string
	delete     func(context.Context, string, metav1.DeleteOptions) error
}

// delete deletes objects, as many as it can. A missing object is not an error.
func (u *uninstalling) delete(ctx context.Context, objects ...deletion) error {
	var errs []error
	for _, object := range objects {
		switch err := object.delete(ctx, object.name, metav1.DeleteOptions{}); {
		case apierrors.IsNotFound(err):
			_ = u.done("%s %s: is not there", object.kind, object.name)
		case err != nil:
			errs = append(errs, fmt.Errorf("delete %s %q: %w", object.kind, object.name, u.failed(access{verb: "delete"}, err)))
		default:
			_ = u.done("%s %s: deleted", object.kind, object.name)
		}
	}
	return errors.Join(errs...)
}

// pause waits, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
