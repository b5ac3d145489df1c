package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/webhook"
)

// The objects that put the gate on new Nodes.
const (
	gateName    = "nodekeep-gate" // the policy's binding, and the RoleBinding that is its off switch
	webhookName = "nodekeep"      // adds the gate where something must wait for capture
)

const (
	maxPasses   = 10 // looks at all Nodes for gates that were added meanwhile
	freedAtOnce = 16 // Nodes
	dryRunEvery = 250 * time.Millisecond
	unanswered  = 20 // dry runs that fail in a row until no more are tried
)

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
	return errors.New("new Nodes keep coming behind the gate: stop what puts it on (kubelets with --register-with-taints, startupTaints of a provisioner), then run this again")
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

// untilStopped waits until no dry-run CREATE has been gated for the settling time, and returns when that was by the clock of the
// API server; the zero time where it refuses dry runs.
func (u *uninstalling) untilStopped(ctx context.Context) (at time.Time, err error) {
	var since time.Time // by our clock
	failed := 0
	for since.IsZero() || time.Since(since) < u.settle {
		node, err := u.kubelet.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: webhook.SelfTestNode}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case ctx.Err() != nil:
			return time.Time{}, fmt.Errorf("wait until new Nodes are gated no more: %w; another policy or webhook may put the taint %s on: look for it with kubectl get mutatingadmissionpolicybindings,mutatingwebhookconfigurations", ctx.Err(), u.gate)
		case err != nil:
			since = time.Time{}
			if failed++; failed >= unanswered || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
				_ = u.done("whether new Nodes are still gated cannot be seen, for the API server refuses a dry run (%v); waiting for %s instead", err, u.settle)
				pause(ctx, u.settle)
				return time.Time{}, ctx.Err()
			}
		case nodekeepTouched(node, u.gate):
			since, failed = time.Time{}, 0
		case since.IsZero():
			since, failed = time.Now(), 0
			at = node.CreationTimestamp.Time
		}
		pause(ctx, dryRunEvery)
	}
	_ = u.done("new Nodes are gated no more")
	return at, nil
}

// nodekeepTouched reports whether the policy or the webhook has changed a registration. For the self-test's Node the webhook removes
// the gate again, so nothing can be seen of the policy as long as the webhook is called.
func nodekeepTouched(node *corev1.Node, gate policy.Gate) bool {
	_, stamped := node.Annotations[policy.StampAnnotation]
	return stamped || gate.On(node.Spec.Taints)
}

// awaitCapture gives capture, which completes Nodes before it frees them, the time to do so.
func (u *uninstalling) awaitCapture(ctx context.Context) error {
	gated, err := u.gated(ctx)
	if err != nil || len(gated) == 0 || u.patience <= 0 {
		return err
	}
	_ = u.done("%s behind the gate; capture has %s to complete and free them", view.Counted(len(gated), "Node"), u.patience)
	waiting, cancel := context.WithTimeout(ctx, u.patience)
	defer cancel()
	for len(gated) > 0 && waiting.Err() == nil {
		pause(waiting, time.Second)
		var mu sync.Mutex
		var still []*observe.Node
		_ = u.each(gated, func(node *observe.Node) error {
			if now, err := u.node(waiting, node.Name); err != nil || now != nil && u.gate.On(now.Spec.Taints) {
				mu.Lock()
				defer mu.Unlock()
				still = append(still, node) // also one that cannot be read
			}
			return nil
		})
		gated = still
	}
	return ctx.Err()
}

// gated reads all Nodes and returns those behind the gate.
func (u *uninstalling) gated(ctx context.Context) (gated []*observe.Node, err error) {
	for node, err := range u.allNodes(ctx) {
		if err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		if u.gate.On(node.Spec.Taints) {
			gated = append(gated, withTaintsOnly(node))
		}
	}
	return gated, nil
}

// withTaintsOnly is a Node as far as its gate is concerned: a page of whole Nodes is large.
func withTaintsOnly(node *corev1.Node) *observe.Node {
	slim := &corev1.Node{}
	slim.Name, slim.UID, slim.ResourceVersion, slim.CreationTimestamp = node.Name, node.UID, node.ResourceVersion, node.CreationTimestamp
	slim.Spec.Taints = node.Spec.Taints
	return observe.Of(slim)
}

func (u *uninstalling) each(nodes []*observe.Node, do func(*observe.Node) error) error {
	var group errgroup.Group
	group.SetLimit(freedAtOnce)
	for _, node := range nodes {
		group.Go(func() error { return do(node) })
	}
	return group.Wait()
}

// free lifts the gates of Nodes and returns how many. One that fails does not keep the others behind the gate.
func (u *uninstalling) free(ctx context.Context, gated []*observe.Node, stopped time.Time) (freed int, err error) {
	var (
		mu     sync.Mutex
		failed []string
		errs   []error
	)
	_ = u.each(gated, func(node *observe.Node) error {
		lifted, err := u.lift(ctx, node)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			failed, errs = append(failed, node.Name), append(errs, fmt.Errorf("lift gate of node %q: %w", node.Name, err))
		case lifted && late(node, stopped):
			freed++
			_ = u.done("node %s: gate lifted, which is not nodekeep's: the Node registered after gating had stopped. Its kubelet (--register-with-taints) or its provisioner (startupTaints) puts it on", node.Name)
		case lifted:
			freed++
			_ = u.done("node %s: gate lifted", node.Name)
		}
		return nil
	})
	if len(failed) == 0 {
		return freed, nil
	}
	return freed, fmt.Errorf("%s behind the gate still (%s): run this again, or kubectl taint node NODE %s-: %w", view.Counted(len(failed), "Node"), named(failed), u.gate, errors.Join(errs...))
}

// lift lifts the gate of one Node; lifted is false where the gate or the Node is gone already.
func (u *uninstalling) lift(ctx context.Context, node *observe.Node) (lifted bool, err error) {
	first := node
	err = change[observe.Node]{
		read: func(ctx context.Context) (*observe.Node, error) {
			if first != nil {
				node, first = first, nil
				return node, nil
			}
			now, err := u.node(ctx, node.Name)
			if err != nil || now == nil || !u.gate.On(now.Spec.Taints) {
				return nil, err
			}
			return withTaintsOnly(now), nil
		},
		do: func(ctx context.Context, node *observe.Node) error {
			err := u.patchNode(ctx, node, capture.Change{LiftGate: true}, u.gate, metav1.PatchOptions{FieldManager: "nodekeep-uninstall"})
			lifted = err == nil
			return err
		},
	}.run(ctx)
	return lifted, err
}

// late reports whether a Node was created behind the gate after gating had stopped, both by the clock of the API server: then its
// kubelet or its provisioner adds the gate.
func late(node *observe.Node, stopped time.Time) bool {
	return !stopped.IsZero() && node.CreationTimestamp.After(stopped)
}

// named lists names, not more than are read.
func named(names []string) string {
	const most = 20
	slices.Sort(names)
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// pause waits, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
