package tool

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cmd/tool/view"
	"nodekeep.dev/nodekeep/store"
)

// sight reads a Node and its record. That there is neither is an error, and so the name is likely a mistake.
func (c *cluster) sight(ctx context.Context, argument string) (view.Sight, error) {
	name, err := nodeName(argument)
	if err != nil {
		return view.Sight{}, usage(err)
	}
	sight, _, err := c.look(ctx, name)
	if err == nil && sight.Node == nil && sight.Record == nil && sight.Unreadable == nil {
		return view.Sight{}, fmt.Errorf("there is no Node %q, and no record of one in namespace %s", name, c.namespace)
	}
	return sight, err
}

// look reads a Node and then its record, of which the entry tells the version.
func (c *cluster) look(ctx context.Context, name string) (view.Sight, store.Entry, error) {
	node, err := c.node(ctx, name)
	if err != nil {
		return view.Sight{}, store.Entry{}, err
	}
	return c.withEntry(ctx, view.Sight{Name: name, Node: node})
}

// withRecord reads the record; that there is none is no error.
func (c *cluster) withRecord(ctx context.Context, sight view.Sight) (view.Sight, error) {
	sight, _, err := c.withEntry(ctx, sight)
	return sight, err
}

func (c *cluster) withEntry(ctx context.Context, sight view.Sight) (view.Sight, store.Entry, error) {
	entry, err := c.records.GetLive(ctx, sight.Name)
	switch {
	case errors.Is(err, store.ErrUnreadable):
		sight.Unreadable = err
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return view.Sight{}, store.Entry{}, c.failed(c.toRecords("get"), err)
	default:
		sight.Record = &entry.Record
	}
	return sight, entry, nil
}

// recorded is a sight with a record that can be read.
func (c *cluster) recorded(ctx context.Context, argument string) (view.Sight, error) {
	sight, err := c.sight(ctx, argument)
	switch {
	case err != nil:
		return view.Sight{}, err
	case sight.Unreadable != nil:
		return view.Sight{}, fmt.Errorf("%w\n  kubectl -n %s get configmap %s -o yaml shows it; mend or delete it", sight.Unreadable, c.namespace, store.Name(sight.Name))
	case sight.Record == nil:
		return view.Sight{}, fmt.Errorf("nothing is remembered of Node %q: there is no record in namespace %s", sight.Name, c.namespace)
	}
	return sight, nil
}

// node is the live Node; nil where there is none.
func (c *cluster) node(ctx context.Context, name string) (*corev1.Node, error) {
	node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if capture.SaysGone(err) {
		return nil, nil
	}
	return node, c.failed(c.toNodes("get"), err)
}

// live is a sight with a Node that is there and a record that can be read.
func (c *cluster) live(ctx context.Context, argument string) (view.Sight, error) {
	sight, err := c.recorded(ctx, argument)
	if err == nil && sight.Node == nil {
		err = fmt.Errorf("there is no Node %q any more; what is remembered of it waits for the next of that name", sight.Name)
	}
	return sight, err
}
