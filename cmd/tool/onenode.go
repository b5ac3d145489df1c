package tool

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cmd/tool/view"
	"nodekeep.dev/nodekeep/store"
)

// sight reads a Node and its record. That there is neither is an error, and so the name is likely a mistake.
func (c *cluster) sight(ctx context.Context, argument string) (view.Sight, error) {
	name, err := nodeName(argument)
	if err != nil {
		return view.Sight{}, usage(err)
	}
	node, err := c.node(ctx, name)
	if err != nil {
		return view.Sight{}, err
	}
	sight, err := c.withRecord(ctx, view.Sight{Name: name, Node: node})
	if err == nil && sight.Node == nil && sight.Record == nil && sight.Unreadable == nil {
		return view.Sight{}, fmt.Errorf("there is no Node %q, and no record of one in namespace %s", name, c.namespace)
	}
	return sight, err
}

// withRecord reads the record; that there is none is no error.
func (c *cluster) withRecord(ctx context.Context, sight view.Sight) (view.Sight, error) {
	entry, err := c.records.GetLive(ctx, sight.Name)
	switch {
	case errors.Is(err, store.ErrUnreadable):
		sight.Unreadable = err
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return view.Sight{}, c.failed(c.toRecords("get"), err)
	default:
		sight.Record = &entry.Record
	}
	return sight, nil
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
	if apierrors.IsNotFound(err) {
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
