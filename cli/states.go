package cli

import (
	"context"
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/store"
)

// allNodes goes through the Nodes in the order of their names.
func (c *cluster) allNodes(ctx context.Context) iter.Seq2[*corev1.Node, error] {
	return all(ctx, func(ctx context.Context, options metav1.ListOptions) ([]*corev1.Node, metav1.ListMeta, error) {
		list, err := c.client.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return nil, metav1.ListMeta{}, c.failed(c.toNodes("list"), err)
		}
		nodes := make([]*corev1.Node, len(list.Items))
		for i := range list.Items {
			nodes[i] = &list.Items[i]
		}
		return nodes, list.ListMeta, nil
	})
}

// allRecords goes through the records in the order of their ConfigMaps' names.
func (c *cluster) allRecords(ctx context.Context) iter.Seq2[store.Listed, error] {
	return all(ctx, func(ctx context.Context, options metav1.ListOptions) ([]store.Listed, metav1.ListMeta, error) {
		page, meta, err := c.records.List(ctx, options)
		return page, meta, c.failed(c.toRecords("list"), err)
	})
}

// allStates goes through every Node and every record, each Node name once: two lists, both sorted, are read side by side, so
// that nothing is held but a page or two of each.
func (c *cluster) allStates(ctx context.Context) iter.Seq2[view.NodeState, error] {
	return joined(c.allNodes(ctx), c.allRecords(ctx))
}

func joined(nodes iter.Seq2[*corev1.Node, error], records iter.Seq2[store.Listed, error]) iter.Seq2[view.NodeState, error] {
	return func(yield func(view.NodeState, error) bool) {
		// What stands elsewhere in the list of ConfigMaps than in that of Nodes, by the ConfigMap's name: names that are too
		// long to be part of another, and ConfigMaps that somebody has named. They come last.
		elsewhere := map[string]view.NodeState{}
		nextNode, stopNodes := iter.Pull2(nodesInOrder(nodes, elsewhere))
		defer stopNodes()
		nextRecord, stopRecords := iter.Pull2(recordsInOrder(records, elsewhere))
		defer stopRecords()

		node, nodeErr, nodeLeft := nextNode()
		record, recordErr, recordLeft := nextRecord()
		for nodeLeft || recordLeft {
			if err := firstOf(nodeErr, recordErr); err != nil {
				yield(view.NodeState{}, err)
				return
			}
			var state view.NodeState
			takeNode := nodeLeft && (!recordLeft || node.Name <= record.Node)
			takeRecord := recordLeft && (!nodeLeft || record.Node <= node.Name)
			if takeNode {
				state = view.NodeState{Name: node.Name, Node: node}
				node, nodeErr, nodeLeft = nextNode()
			}
			if takeRecord {
				state = joinedTo(state, record)
				record, recordErr, recordLeft = nextRecord()
			}
			if !yield(state, nil) {
				return
			}
		}
		for _, name := range slices.Sorted(maps.Keys(elsewhere)) {
			if !yield(elsewhere[name], nil) {
				return
			}
		}
	}
}

// nodesInOrder puts aside Nodes whose names are shortened in those of their ConfigMaps.
func nodesInOrder(nodes iter.Seq2[*corev1.Node, error], elsewhere map[string]view.NodeState) iter.Seq2[*corev1.Node, error] {
	return func(yield func(*corev1.Node, error) bool) {
		for node, err := range nodes {
			if err == nil && store.Shortened(node.Name) {
				state := elsewhere[store.Name(node.Name)]
				state.Name, state.Node = node.Name, node
				elsewhere[store.Name(node.Name)] = state
				continue
			}
			if !yield(node, err) {
				return
			}
		}
	}
}

func recordsInOrder(records iter.Seq2[store.Listed, error], elsewhere map[string]view.NodeState) iter.Seq2[store.Listed, error] {
	return func(yield func(store.Listed, error) bool) {
		for record, err := range records {
			if err == nil && (store.Shortened(record.Node) || record.ConfigMap != store.Name(record.Node)) {
				elsewhere[record.ConfigMap] = joinedTo(elsewhere[record.ConfigMap], record)
				continue
			}
			if !yield(record, err) {
				return
			}
		}
	}
}

// joinedTo adds what was read as a record.
func joinedTo(state view.NodeState, listed store.Listed) view.NodeState {
	if state.Name == "" {
		state.Name = listed.Node
	}
	if state.Unreadable = listed.Err; listed.Err == nil {
		state.Record, state.Accepted = &listed.Entry.Record, listed.Entry.Accepted
	}
	return state
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
