package ungate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/observe"
)

const (
	pageSize = 500 // Nodes read at once, some 10 MiB
	atOnce   = 16  // Nodes freed or looked at at once
	tries    = 20  // of freeing a Node that changes meanwhile
)

// list is all Nodes behind the gate, read page by page.
func (u *Ungating) list(ctx context.Context) (gated []*observe.Node, err error) {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := u.Client.CoreV1().Nodes().List(ctx, options)
		if apierrors.IsResourceExpired(err) && options.Continue != "" {
			options.Continue, gated = "", nil // the pages took too long; from the start
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		gated = append(gated, behind(page.Items, u.Gate)...)
		if options.Continue = page.Continue; options.Continue == "" {
			return gated, nil
		}
	}
}

// stillGated is those of the Nodes that are behind the gate now. One that cannot be read counts as such.
func (u *Ungating) stillGated(ctx context.Context, nodes []*observe.Node) []*observe.Node {
	var (
		group errgroup.Group
		mu    sync.Mutex
		still []*observe.Node
	)
	group.SetLimit(atOnce)
	for _, node := range nodes {
		group.Go(func() error {
			now, err := u.Client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
			if err == nil && !u.Gate.On(now.Spec.Taints) || apierrors.IsNotFound(err) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			still = append(still, node)
			return nil
		})
	}
	_ = group.Wait() // no function of it returns an error
	return still
}

// free takes the gate off the Nodes and returns of how many. One that fails does not keep others from being freed.
func (u *Ungating) free(ctx context.Context, gated []*observe.Node, stopped time.Time) (freed int, err error) {
	var (
		group  errgroup.Group
		mu     sync.Mutex
		failed []string
		errs   []error
	)
	group.SetLimit(atOnce)
	for _, node := range gated {
		group.Go(func() error {
			lifted, err := u.lift(ctx, node)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				failed, errs = append(failed, node.Name), append(errs, err)
			case lifted && late(node, stopped):
				freed++
				u.say("node %s: gate lifted, which is not nodekeep's: the Node registered after gating had stopped. Its kubelet (--register-with-taints) or its provisioner (startupTaints) puts it on", node.Name)
			case lifted:
				freed++
				u.say("node %s: gate lifted", node.Name)
			}
			return nil
		})
	}
	_ = group.Wait() // no function of it returns an error
	if len(failed) > 0 {
		return freed, fmt.Errorf("%s behind the gate still (%s): run this again, or kubectl taint node NODE %s-: %w", count(len(failed)), named(failed), u.Gate, errors.Join(errs...))
	}
	return freed, nil
}

// lift takes the gate off one Node; lifted is false where it is off, or the Node gone, by itself.
func (u *Ungating) lift(ctx context.Context, node *observe.Node) (lifted bool, err error) {
	for range tries {
		patch, err := capture.PatchFor(node, capture.Change{LiftGate: true}, u.Gate)
		if err != nil {
			return false, err
		}
		_, err = u.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "nodekeep-uninstall"})
		switch {
		case err == nil:
			return true, nil
		case apierrors.IsNotFound(err):
			return false, nil
		case !apierrors.IsConflict(err) && !apierrors.IsInvalid(err): // another state, or another object of that name
			return false, fmt.Errorf("lift gate of node %q: %w", node.Name, err)
		}
		now, err := u.Client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("read node %q: %w", node.Name, err)
		case !u.Gate.On(now.Spec.Taints):
			return false, nil
		}
		node = observe.Of(now)
	}
	return false, fmt.Errorf("lift gate of node %q: it changed %d times meanwhile", node.Name, tries)
}
