package cluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/store"
)

// GetNode returns the live Node; nil where there is none.
func (c *Cluster) GetNode(ctx context.Context, name string) (*corev1.Node, error) {
	node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if store.IsGone(err) {
		return nil, nil
	}
	return node, c.ExplainError(c.NodesRight("get"), err)
}

// GetState reads a Node and then its record; either may be missing.
func (c *Cluster) GetState(ctx context.Context, name string) (nodestate.State, error) {
	node, err := c.GetNode(ctx, name)
	if err != nil {
		return nodestate.State{}, err
	}
	return c.AddRecord(ctx, nodestate.State{Name: name, Node: node})
}

// AddRecord adds the record to a state, as the API server has it now; a missing one is not an error.
func (c *Cluster) AddRecord(ctx context.Context, state nodestate.State) (nodestate.State, error) {
	entry, err := c.Records.GetFromAPI(ctx, state.Name)
	state.StoreEntry = entry
	switch {
	case errors.Is(err, store.ErrUnreadable):
		state.Unreadable = err
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return nodestate.State{}, c.ExplainError(c.RecordsRight("get"), err)
	default:
		state.Record = &entry.Record
	}
	return state, nil
}

// RequireState reads a Node and its record. It is an error that there is neither: the name is likely wrong.
func (c *Cluster) RequireState(ctx context.Context, name string) (nodestate.State, error) {
	state, err := c.GetState(ctx, name)
	if err == nil && state.Node == nil && state.Record == nil && state.Unreadable == nil {
		err = fmt.Errorf("there is no Node %q, and no record of one in namespace %s", name, c.Namespace)
	}
	return state, err
}

// RequireRecordedState returns a state with a record that can be read.
func (c *Cluster) RequireRecordedState(ctx context.Context, name string) (nodestate.State, error) {
	state, err := c.RequireState(ctx, name)
	if err == nil {
		err = c.RequireRecord(state)
	}
	return state, err
}

// RequireRecord reports why there is no record that can be read, and what to do about it.
func (c *Cluster) RequireRecord(state nodestate.State) error {
	switch {
	case state.Unreadable != nil:
		return fmt.Errorf("%w\n  kubectl -n %s get configmap %s -o yaml shows it: correct it, or nodekeep forget %s deletes it", state.Unreadable, c.Namespace, store.Name(state.Name), state.Name)
	case state.Record == nil && state.Node != nil:
		return fmt.Errorf("there is no record of Node %q in namespace %s; nodekeep explain %s shows whether anything of it is kept", state.Name, c.Namespace, state.Name)
	case state.Record == nil:
		return fmt.Errorf("there is no record of Node %q in namespace %s", state.Name, c.Namespace)
	}
	return nil
}

// RequireLiveState returns a state with a Node and a record that can be read.
func (c *Cluster) RequireLiveState(ctx context.Context, name string) (nodestate.State, error) {
	state, err := c.RequireRecordedState(ctx, name)
	if err == nil && state.Node == nil {
		err = fmt.Errorf("there is no Node %q any more; its record waits for the next Node of that name", name)
	}
	return state, err
}

// RequireNode returns a Node; it is an error that there is none.
func (c *Cluster) RequireNode(ctx context.Context, name string) (*corev1.Node, error) {
	node, err := c.GetNode(ctx, name)
	if err == nil && node == nil {
		err = fmt.Errorf("there is no Node %q", name)
	}
	return node, err
}
