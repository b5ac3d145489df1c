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

	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/webhook"
)

// The objects that put the gate on new Nodes.
const (
	gateObjectName           = doctor.GateObjectName // the policy's binding, and the RoleBinding that is its off switch; the ConfigMap with the gate's key
	webhookConfigurationName = "nodekeep"            // adds the gate where something must wait for capture
)

// maxPasses bounds how often all Nodes are read again for gates that were added meanwhile.
const maxPasses = 10

// uninstallRun is one run of `uninstall`.
//
// Gating stops before the first gate is lifted. After the last one, all Nodes are read again, up to maxPasses times, until none is gated. A Node is changed
// only in the state that was read, and only its gate is changed. It is safe to run it again.
type uninstallRun struct {
	nodeOpener
	// captureTimeout is how long capture is given to complete Nodes before their gates are lifted.
	captureTimeout time.Duration
}

// uninstallOptions are the flags of `uninstall`.
type uninstallOptions struct {
	*options
	settle, patience, timeout time.Duration
}

const uninstallLong = `Uninstall must run before nodekeep is deleted. Otherwise Nodes stay behind a gate that nothing lifts.

It shows what it will delete and change, and asks. Then:

1. It deletes the objects that add the gate to new Nodes, and waits until no API server adds the gate.
2. It waits until capture has completed the Nodes behind the gate, and lifts the gate of the remaining Nodes.
3. It removes the verification taints of all Nodes.
4. It deletes the guard policies, the admission policies of governance, and ConfigMap
   ` + inventories.InventoryName + `.

It deletes neither the processes nor the records. ConfigMap ` + store.AcceptedConfigMap + ` stays with the records. Without a
NodePolicy, a later installation uses what was accepted last. NodePolicy ` + doctor.PolicyName + ` and its CustomResourceDefinition stay,
too. At its end it says how to save and delete them. The Leases of the processes stay: a later installation takes them
over. An emergency stays as well, because otherwise verify, which still runs, would close Nodes again. Once nodekeep
is deleted, end the emergency as the command says: kubectl deletes its Role and its RoleBinding.

The Job of "helm uninstall" runs it with --yes.`

const uninstallExamples = `
	# What it would do
	nodekeep uninstall --dry-run

	# Before the manifests are deleted
	nodekeep uninstall
	kubectl delete --ignore-not-found -f manifests/nodekeep.yaml`

func newUninstallCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &uninstallOptions{options: newOptions(streams)}
	command := o.finishWithMethods(&cobra.Command{
		Use:     "uninstall [flags]",
		Short:   "Stop gating and free every Node, before nodekeep is deleted",
		Long:    uninstallLong,
		Example: uninstallExamples,
		GroupID: groupAct,
	}, hasGateKey|hasConfirmation, o)
	flags := command.Flags()
	flags.DurationVar(&o.settle, "settle", 10*time.Second, "how long all dry runs must show the change before it counts as seen by every API server")
	flags.DurationVar(&o.patience, "patience", 30*time.Second, "how long capture is given to complete Nodes behind the gate, before their gates are lifted")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "time limit for the whole command")
	return command
}

func (o *uninstallOptions) validate() error {
	if o.settle < 0 || o.patience < 0 || o.timeout <= 0 {
		return errors.New("--settle and --patience must not be negative, and --timeout must be more than 0")
	}
	return nil
}

func (o *uninstallOptions) rights(c *session, _ []string) []doctor.Right {
	needed := []doctor.Right{c.NodesRight("list"), c.PolicyRight(), c.ConfigMapRight("get", store.AcceptedConfigMap)}
	if o.dryRun {
		return needed
	}
	u := &uninstallRun{nodeOpener: nodeOpener{session: c}}
	for _, object := range append(u.gatingObjects(), u.objectsDeletedLast()...) {
		needed = append(needed, object.right)
	}
	return append(needed, c.NodesRight("get"), c.NodesRight("patch"))
}

func (o *uninstallOptions) run(ctx context.Context, c *session, _ []string) error {
	dryRun, err := webhook.NewDryRun(c.Config)
	if err != nil {
		return err
	}
	u := &uninstallRun{nodeOpener{c, dryRun, o.settle, "nodekeep-uninstall"}, o.patience}
	if o.dryRun || !o.yes {
		plan, err := u.plan(ctx)
		if err != nil {
			return err
		}
		if proceed, err := o.confirm(ctx, c, &proposal{document: plan.Document(c.Now()), question: "Uninstall?"}); err != nil || !proceed {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return asFindings(u.run(ctx))
}

// run ends with the first step that fails. What was done by then stays done.
func (u *uninstallRun) run(ctx context.Context) error {
	if err := u.delete(ctx, u.gatingObjects()...); err != nil {
		return err
	}
	stopped, _, err := u.awaitUngated(ctx)
	if err != nil {
		return err
	}
	if err := u.awaitCapture(ctx); err != nil {
		return err
	}
	freed := 0
	for range maxPasses {
		gated, err := u.nodesToFree(ctx, u.gateRemoval(stopped))
		if err != nil {
			return err
		}
		if len(gated) == 0 {
			verb := map[bool]string{true: "was", false: "were"}[freed == 1]
			_ = u.printResult("no Node is behind the gate; %s %s freed here", view.Counted(freed, "Node"), verb)
			if err := u.freeUnverified(ctx); err != nil { // only now: capture adds these taints to Nodes behind the gate
				return err
			}
			if err := u.delete(ctx, u.objectsDeletedLast()...); err != nil {
				return err
			}
			emergency, err := u.emergencyRemainder(ctx)
			u.sayUnknown("Whether an emergency is declared", err)
			if emergency != "" {
				_ = u.printResult("Stays: %s", emergency)
			}
			return u.printResult("nodekeep can be deleted now. %s", view.PolicyStays)
		}
		n, err := u.free(ctx, gated, u.gateRemoval(stopped))
		if freed += n; err != nil {
			return err
		}
	}
	return errors.New("new Nodes keep coming behind the gate: stop the component that adds it (kubelets with --register-with-taints, startupTaints of a provisioner), then run this again")
}

// delete deletes objects, as many as it can. A missing object is not an error.
func (o *nodeOpener) delete(ctx context.Context, objects ...managedObject) error {
	var errs []error
	for _, object := range objects {
		switch err := object.delete(ctx, object.name, metav1.DeleteOptions{}); {
		case apierrors.IsNotFound(err):
			_ = o.printResult("%s %s: is not there", object.kind, object.name)
		case err != nil:
			errs = append(errs, fmt.Errorf("delete %s %q: %w", object.kind, object.name, o.ExplainError(object.right, err)))
		default:
			_ = o.printResult("%s %s: deleted", object.kind, object.name)
		}
	}
	return errors.Join(errs...)
}

// sleep waits for a time, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
