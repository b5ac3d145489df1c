package capture

import (
	"context"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/contain"
)

// gateName is the name of the gate policy, of its binding, and of the Role and RoleBinding that switch it off by being gone.
const gateName = "nodekeep-gate"

// gateLook is how often the gate policy is looked at.
const gateLook = 30 * time.Second

// Gatekeeping knows since when the gate policy has been in force. Every Node made since then was born behind the gate, which
// no kubelet can lift; so one that has no gate any more went through our hands, and what its stamp says of it is more
// than the kubelet's claim.
type Gatekeeping struct {
	client    kubernetes.Interface
	namespace string
	logger    *slog.Logger

	mu    sync.RWMutex
	since time.Time // zero: not in force, as far as is known
}

// NewGatekeeping looks at nothing yet; namespace is that of the off switch.
func NewGatekeeping(client kubernetes.Interface, namespace string, logger *slog.Logger) *Gatekeeping {
	return &Gatekeeping{client: client, namespace: namespace, logger: logger}
}

// Run looks now and from time to time until ctx is done.
func (g *Gatekeeping) Run(ctx context.Context) {
	g.Look(ctx)
	ticker := time.NewTicker(gateLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			g.Look(ctx)
		}
	}
}

// Look asks the API server now. Whatever cannot be read counts as not in force.
func (g *Gatekeeping) Look(ctx context.Context) {
	var since time.Time
	err := contain.Call(func() (err error) { since, err = g.look(ctx); return err })
	g.mu.Lock()
	changed := g.since.IsZero() != since.IsZero()
	g.since = since
	g.mu.Unlock()
	if changed {
		g.logger.Info("gate policy looked at", "inForce", !since.IsZero(), "error", err)
	}
}

func (g *Gatekeeping) look(ctx context.Context) (since time.Time, err error) {
	admission := g.client.AdmissionregistrationV1()
	policy, err := admission.MutatingAdmissionPolicies().Get(ctx, gateName, metav1.GetOptions{})
	if err != nil {
		return time.Time{}, err
	}
	binding, err := admission.MutatingAdmissionPolicyBindings().Get(ctx, gateName, metav1.GetOptions{})
	if err != nil {
		return time.Time{}, err
	}
	right, err := g.client.RbacV1().Roles(g.namespace).Get(ctx, gateName, metav1.GetOptions{})
	if err != nil {
		return time.Time{}, err
	}
	offSwitch, err := g.client.RbacV1().RoleBindings(g.namespace).Get(ctx, gateName, metav1.GetOptions{})
	if err != nil {
		return time.Time{}, err
	}
	for _, made := range []metav1.Time{policy.CreationTimestamp, binding.CreationTimestamp, right.CreationTimestamp, offSwitch.CreationTimestamp} {
		if made.After(since) {
			since = made.Time
		}
	}
	return since, nil
}

// settling is how long API servers may take to notice a policy.
const settling = 10 * time.Second

// Kept reports whether a Node made at that time was born behind the gate.
func (g *Gatekeeping) Kept(created time.Time) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return !g.since.IsZero() && created.After(g.since.Add(settling))
}
