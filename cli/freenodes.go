package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/observe"
)

// freedAtOnce is how many Nodes are freed at the same time.
const freedAtOnce = 16

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
			_ = u.done("node %s: gate lifted. The Node registered after gating had stopped, so its kubelet (--register-with-taints) or its provisioner (startupTaints) adds it", node.Name)
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

// lift lifts the gate of one Node; lifted is false if the Node or its gate is deleted already.
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
