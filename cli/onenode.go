package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"nodekeep.dev/nodekeep/capture/gc"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/store"
)

// nodeName reads the name of a Node as a user writes it, or as `-o name` prints it.
func nodeName(argument string) (string, error) {
	name := strings.TrimPrefix(strings.TrimPrefix(argument, "node/"), "nodes/")
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return "", fmt.Errorf("%q cannot be the name of a Node: %s", argument, wrong[0])
	}
	return name, nil
}

// node is the live Node; nil where there is none.
func (c *cluster) node(ctx context.Context, name string) (*corev1.Node, error) {
	node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if gc.SaysGone(err) {
		return nil, nil
	}
	return node, c.failed(c.toNodes("get"), err)
}

// look reads a Node and then its record; either may be missing.
func (c *cluster) look(ctx context.Context, name string) (view.NodeState, error) {
	node, err := c.node(ctx, name)
	if err != nil {
		return view.NodeState{}, err
	}
	return c.withRecord(ctx, view.NodeState{Name: name, Node: node})
}

// withRecord reads the record; a missing one is not an error.
func (c *cluster) withRecord(ctx context.Context, state view.NodeState) (view.NodeState, error) {
	entry, err := c.records.GetLive(ctx, state.Name)
	state.Entry = entry
	switch {
	case errors.Is(err, store.ErrUnreadable):
		state.Unreadable = err
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return view.NodeState{}, c.failed(c.toRecords("get"), err)
	default:
		state.Record = &entry.Record
	}
	return state, nil
}

// state reads a Node and its record. It is an error that there is neither: the name is likely wrong.
func (c *cluster) state(ctx context.Context, name string) (view.NodeState, error) {
	state, err := c.look(ctx, name)
	if err == nil && state.Node == nil && state.Record == nil && state.Unreadable == nil {
		err = fmt.Errorf("there is no Node %q, and no record of one in namespace %s", name, c.namespace)
	}
	return state, err
}

// recorded is a state with a record that can be read.
func (c *cluster) recorded(ctx context.Context, name string) (view.NodeState, error) {
	state, err := c.state(ctx, name)
	switch {
	case err != nil:
		return view.NodeState{}, err
	case state.Unreadable != nil:
		return view.NodeState{}, fmt.Errorf("%w\n  kubectl -n %s get configmap %s -o yaml shows it: correct it, or nodekeep forget %s deletes it", state.Unreadable, c.namespace, store.Name(name), name)
	case state.Record == nil:
		return view.NodeState{}, fmt.Errorf("nothing is remembered of Node %q: there is no record in namespace %s", name, c.namespace)
	}
	return state, nil
}

// live is a state with a Node and a record that can be read.
func (c *cluster) live(ctx context.Context, name string) (view.NodeState, error) {
	state, err := c.recorded(ctx, name)
	if err == nil && state.Node == nil {
		err = fmt.Errorf("there is no Node %q any more; its record waits for the next Node of that name", name)
	}
	return state, err
}
