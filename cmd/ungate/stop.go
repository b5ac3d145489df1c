package ungate

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
)

// What puts the gate on.
const (
	gateName    = "nodekeep-gate" // the policy's binding, and the RoleBinding that is its off switch
	webhookName = "nodekeep"      // adds it where something must wait for capture
)

// The policies that keep kubelets from nodekeep's annotations, and their bindings.
const (
	guardName = "nodekeep-guard"
	stripName = "nodekeep-strip"
)

// dryRunEvery is the time between two dry runs, and unanswered how many may fail in a row until no more are tried.
const (
	dryRunEvery = 250 * time.Millisecond
	unanswered  = 20
)

// deletion is an object without which something stops.
type deletion struct {
	kind, name string
	delete     func(context.Context, string, metav1.DeleteOptions) error
}

// stop deletes what puts the gate on new Nodes.
func (u *Ungating) stop(ctx context.Context) error {
	admission := u.Client.AdmissionregistrationV1()
	return u.delete(ctx,
		deletion{"MutatingAdmissionPolicyBinding", gateName, admission.MutatingAdmissionPolicyBindings().Delete},
		deletion{"RoleBinding", gateName, u.Client.RbacV1().RoleBindings(u.Namespace).Delete},
		deletion{"MutatingWebhookConfiguration", webhookName, admission.MutatingWebhookConfigurations().Delete},
	)
}

// unguard deletes the policies that keep kubelets from nodekeep's annotations, of which capture needs nothing any more.
func (u *Ungating) unguard(ctx context.Context) error {
	admission := u.Client.AdmissionregistrationV1()
	return u.delete(ctx,
		deletion{"MutatingAdmissionPolicyBinding", stripName, admission.MutatingAdmissionPolicyBindings().Delete},
		deletion{"MutatingAdmissionPolicy", stripName, admission.MutatingAdmissionPolicies().Delete},
		deletion{"ValidatingAdmissionPolicyBinding", guardName, admission.ValidatingAdmissionPolicyBindings().Delete},
		deletion{"ValidatingAdmissionPolicy", guardName, admission.ValidatingAdmissionPolicies().Delete},
	)
}

// delete deletes objects. A missing object is not an error.
func (u *Ungating) delete(ctx context.Context, objects ...deletion) error {
	var errs []error
	for _, what := range objects {
		switch err := what.delete(ctx, what.name, metav1.DeleteOptions{}); {
		case apierrors.IsNotFound(err):
			u.say("%s %s: is not there", what.kind, what.name)
		case err != nil:
			errs = append(errs, fmt.Errorf("delete %s %q: %w", what.kind, what.name, err))
		default:
			u.say("%s %s: deleted", what.kind, what.name)
		}
	}
	return errors.Join(errs...)
}

// untilStopped waits until no dry-run CREATE has been gated for the settling time, and returns when that was by the clock of the
// API server; the zero time where it refuses dry runs.
func (u *Ungating) untilStopped(ctx context.Context) (at time.Time, err error) {
	var since time.Time // by our clock
	failed := 0
	for since.IsZero() || time.Since(since) < u.Settle {
		node, err := u.Kubelet.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: Probe}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case ctx.Err() != nil:
			return time.Time{}, fmt.Errorf("wait until new Nodes are gated no more: %w; another policy or webhook may put the taint %s on: look for it with kubectl get mutatingadmissionpolicybindings,mutatingwebhookconfigurations", ctx.Err(), u.Gate)
		case err != nil:
			since = time.Time{}
			if failed++; failed >= unanswered || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
				u.say("whether new Nodes are still gated cannot be seen, for the API server refuses a dry run (%v); waiting for %s instead", err, u.Settle)
				pause(ctx, u.Settle)
				return time.Time{}, ctx.Err()
			}
		case u.touched(node):
			since, failed = time.Time{}, 0
		case since.IsZero():
			since, failed = time.Now(), 0
			at = node.CreationTimestamp.Time
		}
		pause(ctx, dryRunEvery)
	}
	u.say("new Nodes are gated no more")
	return at, nil
}

// touched reports whether the policy or the webhook had a hand in the registration. For the probe the webhook takes the gate off again, so
// that as long as it is called nothing can be seen of the policy.
func (u *Ungating) touched(node *corev1.Node) bool {
	_, stamped := node.Annotations[policy.StampAnnotation]
	return stamped || u.Gate.On(node.Spec.Taints)
}
