package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/webhook"
)

// nodeName reads the name of a Node as a user writes it, or as `-o name` prints it.
func nodeName(argument string) (string, error) {
	name := strings.TrimPrefix(strings.TrimPrefix(argument, "node/"), "nodes/")
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return "", fmt.Errorf("%q cannot be the name of a Node: %s", argument, wrong[0])
	}
	return name, nil
}

// node returns the live Node; nil where there is none.
func (c *cluster) node(ctx context.Context, name string) (*corev1.Node, error) {
	node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if store.SaysGone(err) {
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

// following returns a state with what the Node follows on the machine that registers it.
func (c *cluster) following(ctx context.Context, state view.NodeState, request *admissionv1.AdmissionRequest) view.NodeState {
	if !state.MayFollow(c.in) {
		return state
	}
	machine := webhook.MachineOf(request, c.in.Policy)
	var others []record.Record
	for listed, err := range c.allRecords(ctx) {
		if err != nil {
			return state.FollowingUnknown(err.Error())
		}
		of := func(r record.Record) bool { return machine.Agrees(r.Machine) }
		if r := listed.Entry.Record; listed.Err == nil && (of(r) || r.Followed != "" || slices.ContainsFunc(r.Earlier, of)) {
			others = append(others, r)
		}
	}
	return state.Following(machine, others, c.in)
}

// recorded returns a state with a record that can be read.
func (c *cluster) recorded(ctx context.Context, name string) (view.NodeState, error) {
	state, err := c.state(ctx, name)
	if err == nil {
		err = c.readable(state)
	}
	return state, err
}

// readable reports why there is no record that can be read, and what to do about it.
func (c *cluster) readable(state view.NodeState) error {
	switch {
	case state.Unreadable != nil:
		return fmt.Errorf("%w\n  kubectl -n %s get configmap %s -o yaml shows it: correct it, or nodekeep forget %s deletes it", state.Unreadable, c.namespace, store.Name(state.Name), state.Name)
	case state.Record == nil && state.Node != nil:
		return fmt.Errorf("there is no record of Node %q in namespace %s; nodekeep explain %s shows whether anything of it is kept", state.Name, c.namespace, state.Name)
	case state.Record == nil:
		return fmt.Errorf("there is no record of Node %q in namespace %s", state.Name, c.namespace)
	}
	return nil
}

// live returns a state with a Node and a record that can be read.
func (c *cluster) live(ctx context.Context, name string) (view.NodeState, error) {
	state, err := c.recorded(ctx, name)
	if err == nil && state.Node == nil {
		err = fmt.Errorf("there is no Node %q any more; its record waits for the next Node of that name", name)
	}
	return state, err
}
