package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/contain"
)

// How often the guard policies are read, and how long that may take.
const (
	guardsInterval = 30 * time.Second
	guardsTimeout  = 10 * time.Second
)

// Guard knows whether the policies that keep kubelets from nodekeep's annotations are in force. While they are, what the stamp of
// a Node says is evidence; otherwise it is the kubelet's claim.
type Guard struct {
	client kubernetes.Interface
	logger *slog.Logger

	mu      sync.RWMutex
	checked bool
	inForce bool
	unread  int // how many checks in a row could not read the policies
}

// New reads nothing yet.
func New(client kubernetes.Interface, logger *slog.Logger) *Guard {
	return &Guard{client: client, logger: logger}
}

// Known is a guard that reads nothing and knows the answer, for tests and simulations.
func Known(inForce bool) *Guard { return &Guard{checked: true, inForce: inForce} }

// Run checks the policies now and every 30 seconds until ctx is done.
func (g *Guard) Run(ctx context.Context) {
	g.Check(ctx)
	ticker := time.NewTicker(guardsInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			g.Check(ctx)
		}
	}
}

// mostUnread is how many failed checks in a row do not yet count as missing policies. A restart of the API server changes no policy.
const mostUnread = 2

// errUnread says that the policies could not be read.
var errUnread = errors.New("read guard policies")

// Check reads the policies now. Policies that could not be read three times in a row count as missing.
func (g *Guard) Check(ctx context.Context) {
	problem := contain.Call(func() error { return g.problem(ctx) })
	if ctx.Err() != nil {
		return // the process stops
	}
	g.mu.Lock()
	if !errors.Is(problem, errUnread) {
		g.unread = 0
	} else if g.unread++; g.checked && g.unread <= mostUnread {
		g.mu.Unlock()
		return
	}
	changed := !g.checked || g.inForce != (problem == nil)
	g.checked, g.inForce = true, problem == nil
	g.mu.Unlock()
	switch {
	case !changed:
	case problem == nil:
		g.logger.Info("guard policies are in force")
	default:
		g.logger.Warn("guard policies are not in force: kubelets can forge nodekeep's annotations, so these are read with care", "reason", problem)
	}
}

// InForce reports whether both policies and their bindings were last found to be as nodekeep ships them.
func (g *Guard) InForce() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.inForce
}

// problem is the first reason why the policies are not in force; nil: they are.
func (g *Guard) problem(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, guardsTimeout)
	defer cancel()
	shipped, err := Shipped()
	if err != nil {
		return err
	}
	found, err := g.read(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnread, err)
	}
	if problems := found.Problems(shipped); len(problems) > 0 {
		return fmt.Errorf("%s", problems[0])
	}
	return nil
}

func (g *Guard) read(ctx context.Context) (found Policies, err error) {
	admission := g.client.AdmissionregistrationV1()
	if found.Guard, err = existing(admission.ValidatingAdmissionPolicies().Get(ctx, GuardName, metav1.GetOptions{})); err != nil {
		return found, fmt.Errorf("get %s: %w", GuardObject, err)
	}
	if found.GuardBinding, err = existing(admission.ValidatingAdmissionPolicyBindings().Get(ctx, GuardName, metav1.GetOptions{})); err != nil {
		return found, fmt.Errorf("get %s: %w", GuardBindingObject, err)
	}
	if found.Strip, err = existing(admission.MutatingAdmissionPolicies().Get(ctx, StripName, metav1.GetOptions{})); err != nil {
		return found, fmt.Errorf("get %s: %w", StripObject, err)
	}
	if found.StripBinding, err = existing(admission.MutatingAdmissionPolicyBindings().Get(ctx, StripName, metav1.GetOptions{})); err != nil {
		return found, fmt.Errorf("get %s: %w", StripBindingObject, err)
	}
	return found, nil
}

// existing is an object, or nil where it, or its kind, does not exist.
func existing[T any](object *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}
