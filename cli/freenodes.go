package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/observe"
)

// awaitCapture gives capture, which completes Nodes before it frees them, the time to do so.
func (u *uninstalling) awaitCapture(ctx context.Context) error {
	gated, err := u.gated(ctx)
	if err != nil || len(gated) == 0 || u.patience <= 0 {
		return err
	}
	_ = u.done("%s behind the gate; capture has %s to complete and free them", view.Counted(len(gated), "Node"), u.patience)
	_ = wait.PollUntilContextTimeout(ctx, time.Second, u.patience, false, func(ctx context.Context) (bool, error) {
		gated = slices.DeleteFunc(gated, func(name string) bool {
			node, err := u.node(ctx, name)
			return err == nil && (node == nil || !u.gate.On(node.Spec.Taints))
		})
		return len(gated) == 0, nil
	})
	return ctx.Err()
}

// gated reads all Nodes and returns the names of those behind the gate.
func (u *uninstalling) gated(ctx context.Context) (gated []string, err error) {
	for node, err := range u.allNodes(ctx) {
		if err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		if u.gate.On(node.Spec.Taints) {
			gated = append(gated, node.Name)
		}
	}
	return gated, nil
}

// free lifts the gates of Nodes and returns how many. One that fails does not keep the others behind the gate.
func (u *uninstalling) free(ctx context.Context, gated []string, stopped time.Time) (freed int, err error) {
	var (
		group errgroup.Group
		mu    sync.Mutex
		errs  []error
	)
	group.SetLimit(changedAtOnce)
	for _, name := range gated {
		group.Go(func() error {
			node, err := u.changeNode(ctx, name, func(node *corev1.Node) (capture.Change, bool) {
				return capture.Change{LiftGate: true}, u.gate.On(node.Spec.Taints)
			})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs = append(errs, fmt.Errorf("lift gate of node %q: %w", name, err))
				return nil
			case node == nil:
				return nil
			}
			freed++
			who := ""
			if late(node, stopped) {
				who = ". The Node registered after gating had stopped, so its kubelet (--register-with-taints) or its provisioner (startupTaints) adds it"
			}
			_ = u.done("node %s: gate lifted%s", name, who)
			return nil
		})
	}
	if _ = group.Wait(); len(errs) == 0 {
		return freed, nil
	}
	return freed, fmt.Errorf("%s behind the gate still: run this again, or kubectl taint node NODE %s-: %w", view.Counted(len(errs), "Node"), u.gate, errors.Join(errs...))
}

// changeNode changes one Node and returns it as it was. It returns nil if the Node is already deleted, or if no change is needed.
func (u *uninstalling) changeNode(ctx context.Context, name string, needed func(*corev1.Node) (capture.Change, bool)) (changed *corev1.Node, err error) {
	err = change(ctx, func(ctx context.Context) (*plan, error) {
		node, err := u.node(ctx, name)
		if err != nil || node == nil {
			return nil, err
		}
		wanted, ok := needed(node)
		if !ok {
			return nil, nil
		}
		return &plan{do: func(ctx context.Context) error {
			err := u.patchNode(ctx, observe.Of(node), wanted, metav1.PatchOptions{FieldManager: "nodekeep-uninstall"})
			if err == nil {
				changed = node
			}
			return err
		}}, nil
	}, nil)
	return changed, err
}

// late reports whether a Node was created with the gate after gating had stopped. Both times are by the clock of the API server. Such a Node gets the
// gate from its kubelet or its provisioner.
func late(node *corev1.Node, stopped time.Time) bool {
	return !stopped.IsZero() && node.CreationTimestamp.After(stopped)
}
