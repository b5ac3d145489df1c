package cli

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture/gc"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/store"
)

// state reads a Node and its record. That there is neither is an error, and so the name is likely a mistake.
func (c *cluster) state(ctx context.Context, argument string) (view.NodeState, error) {
	name, err := nodeName(argument)
	if err != nil {
		return view.NodeState{}, usage(err)
	}
	state, _, err := c.look(ctx, name)
	if err == nil && state.Node == nil && state.Record == nil && state.Unreadable == nil {
		return view.NodeState{}, fmt.Errorf("there is no Node %q, and no record of one in namespace %s", name, c.namespace)
	}
	return state, err
}

// look reads a Node and then its record, of which the entry tells the version.
func (c *cluster) look(ctx context.Context, name string) (view.NodeState, store.Entry, error) {
	node, err := c.node(ctx, name)
	if err != nil {
		return view.NodeState{}, store.Entry{}, err
	}
	return c.withEntry(ctx, view.NodeState{Name: name, Node: node})
}

// withRecord reads the record; that there is none is no error.
func (c *cluster) withRecord(ctx context.Context, state view.NodeState) (view.NodeState, error) {
	state, _, err := c.withEntry(ctx, state)
	return state, err
}

func (c *cluster) withEntry(ctx context.Context, state view.NodeState) (view.NodeState, store.Entry, error) {
	entry, err := c.records.GetLive(ctx, state.Name)
	switch {
	case errors.Is(err, store.ErrUnreadable):
		state.Unreadable = err
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return view.NodeState{}, store.Entry{}, c.failed(c.toRecords("get"), err)
	default:
		state.Record, state.Accepted = &entry.Record, entry.Accepted
	}
	return state, entry, nil
}

// recorded is a state with a record that can be read.
func (c *cluster) recorded(ctx context.Context, argument string) (view.NodeState, error) {
	state, err := c.state(ctx, argument)
	switch {
	case err != nil:
		return view.NodeState{}, err
	case state.Unreadable != nil:
		return view.NodeState{}, fmt.Errorf("%w\n  kubectl -n %s get configmap %s -o yaml shows it; mend or delete it", state.Unreadable, c.namespace, store.Name(state.Name))
	case state.Record == nil:
		return view.NodeState{}, fmt.Errorf("nothing is remembered of Node %q: there is no record in namespace %s", state.Name, c.namespace)
	}
	return state, nil
}

// node is the live Node; nil where there is none.
func (c *cluster) node(ctx context.Context, name string) (*corev1.Node, error) {
	node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if gc.SaysGone(err) {
		return nil, nil
	}
	return node, c.failed(c.toNodes("get"), err)
}

// live is a state with a Node that is there and a record that can be read.
func (c *cluster) live(ctx context.Context, argument string) (view.NodeState, error) {
	state, err := c.recorded(ctx, argument)
	if err == nil && state.Node == nil {
		err = fmt.Errorf("there is no Node %q any more; what is remembered of it waits for the next of that name", state.Name)
	}
	return state, err
}
