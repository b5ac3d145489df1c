package cli

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/webhook"
)

const (
	dryRunInterval   = 250 * time.Millisecond
	maxFailedDryRuns = 20 // dry runs that fail one after the other
)

// nodeOpener is what uninstall and emergency have in common. They stop gating, and free Nodes.
type nodeOpener struct {
	*session
	registrationDryRun *webhook.DryRun
	settleTime         time.Duration // --settle: how long no dry run may be gated. After that time every API server is assumed to have noticed.
	manager            string        // the field manager of the changes
}

// awaitUngated waits until no dry-run CREATE has been gated for the settling time. It returns the start of that time by the clock of the API server.
// If the API server refuses dry runs, it returns the zero time, and nothing is proved.
func (o *nodeOpener) awaitUngated(ctx context.Context) (stopped time.Time, refused bool, err error) {
	stopped, cause, err := o.awaitDryRuns(ctx, false)
	switch {
	case err != nil:
		return time.Time{}, false, fmt.Errorf("wait until new Nodes are no longer gated: %w; another policy or webhook may add the taint %s: look for it with kubectl get mutatingadmissionpolicybindings,mutatingwebhookconfigurations", err, o.gate)
	case cause != nil:
		_ = o.printResult("the API server refuses a dry run (%v), so it cannot be seen whether new Nodes are still gated: waiting for %s instead", cause, o.settleTime)
		sleep(ctx, o.settleTime)
		return time.Time{}, true, ctx.Err()
	}
	_ = o.printResult("new Nodes are no longer gated")
	return stopped, false, nil
}

// awaitDryRuns waits until each dry-run CREATE of the settling time was gated, or none was. The result serverStart is when that time began, by the clock of the
// API server. The result refused is why the API server refuses dry runs, so that neither can be seen.
func (o *nodeOpener) awaitDryRuns(ctx context.Context, gated bool) (serverStart time.Time, refused, err error) {
	var start time.Time // by our clock
	failed := 0
	for start.IsZero() || time.Since(start) < o.settleTime {
		node, err := o.registrationDryRun.Register(ctx)
		switch {
		case ctx.Err() != nil:
			return time.Time{}, nil, ctx.Err()
		case err != nil:
			start = time.Time{}
			if failed++; failed >= maxFailedDryRuns || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
				return time.Time{}, err, nil
			}
		case nodekeepTouched(node, o.gate) != gated:
			start, failed = time.Time{}, 0
		case start.IsZero():
			start, failed = time.Now(), 0
			serverStart = node.CreationTimestamp.Time
		}
		sleep(ctx, dryRunInterval)
	}
	return serverStart, nil, nil
}

// nodekeepTouched reports whether the policy or the webhook has changed a registration. The webhook removes the gate of a dry run again, so its stamp
// counts, too.
func nodekeepTouched(node *corev1.Node, gate policy.Gate) bool {
	_, stamped := node.Annotations[policy.StampAnnotation]
	return stamped || gate.Present(node.Spec.Taints)
}
