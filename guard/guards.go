package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
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
	client  kubernetes.Interface
	logger  *slog.Logger
	shipped func() (Policies, error)

	mu      sync.RWMutex
	checked bool
	inForce bool
	unread  int // how many checks in a row could not read the policies
}

// New reads nothing yet.
func New(client kubernetes.Interface, logger *slog.Logger) *Guard {
	return &Guard{client: client, logger: logger, shipped: sync.OnceValues(Shipped)}
}

// Known returns a guard that reads nothing and knows the answer, for tests and simulations.
func Known(inForce bool) *Guard { return &Guard{checked: true, inForce: inForce} }

// Run checks the policies now and every 30 seconds until ctx is done.
func (g *Guard) Run(ctx context.Context) { wait.UntilWithContext(ctx, g.Check, guardsInterval) }

// mostUnread is how many failed checks in a row do not yet count as missing policies. A restart of the API server changes no policy.
const mostUnread = 2

// Check reads the policies now. Policies that could not be read three times in a row count as missing.
func (g *Guard) Check(ctx context.Context) {
	if g.client == nil {
		return // it is [Known]
	}
	problem := contain.Call(func() error { return g.problem(ctx) })
	if ctx.Err() != nil {
		return // the process stops
	}
	g.mu.Lock()
	if !errors.Is(problem, ErrUnread) {
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

// problem returns the first reason why the policies are not in force; nil: they are.
func (g *Guard) problem(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, guardsTimeout)
	defer cancel()
	shipped, err := g.shipped()
	if err != nil {
		return err
	}
	found, err := g.read(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnread, err)
	}
	if problems := found.Problems(shipped); len(problems) > 0 {
		return errors.New(problems[0])
	}
	return nil
}

func (g *Guard) read(ctx context.Context) (Policies, error) {
	found, admission := Policies{}, g.client.AdmissionregistrationV1()
	return found, errors.Join(
		add(ctx, found, GuardObject, admission.ValidatingAdmissionPolicies()),
		add(ctx, found, GuardBindingObject, admission.ValidatingAdmissionPolicyBindings()),
		add(ctx, found, StripObject, admission.MutatingAdmissionPolicies()),
		add(ctx, found, StripBindingObject, admission.MutatingAdmissionPolicyBindings()),
	)
}

// getter is what the clients of all kinds have in common.
type getter[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
}

// add reads an object and adds it, unless it, or its kind, does not exist.
func add[T any](ctx context.Context, found Policies, object string, client getter[T]) error {
	_, name, _ := strings.Cut(object, "/")
	read, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		found[object], err = runtime.DefaultUnstructuredConverter.ToUnstructured(read)
	}
	if err != nil {
		return fmt.Errorf("get %s: %w", object, err)
	}
	return nil
}
