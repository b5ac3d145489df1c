package cluster

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/store"
)

// pageSize is how many objects are read at a time. A Node with all of its images takes some 50 KiB of memory, and three pages are in memory.
const pageSize = 200

// errStopList ends a list of which no more is wanted.
var errStopList = errors.New("enough")

// listPages lists page by page; it reads the next page while the caller handles the current one. An error ends it. The end of ctx is an error too, because
// an interrupted list must not look complete.
//
// Between two pages, a user may read for long, in a pager, say. If the API server no longer has the state of the list, it offers to continue with a later state. Then the
// list continues there: some items are of a later state, and none is missing.
func listPages[T runtime.Object](ctx context.Context, list pager.ListPageFunc) iter.Seq2[T, error] {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		page, err := list(ctx, options)
		var status apierrors.APIStatus
		if apierrors.IsResourceExpired(err) && errors.As(err, &status) && status.Status().Continue != "" {
			options.Continue = status.Status().Continue
			return list(ctx, options)
		}
		return page, err
	})
	pages.PageSize, pages.PageBufferSize = pageSize, 1
	return func(yield func(T, error) bool) {
		err := pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
			if object, ok := item.(T); ok && !yield(object, nil) {
				return errStopList
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopList) {
			var zero T
			yield(zero, err)
		}
	}
}

// Lister is a typed client that lists one resource.
type Lister[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
}

// pageLister returns how a typed client lists what the selectors select. An error names the missing right.
func pageLister[L runtime.Object](c *Cluster, right doctor.Right, client Lister[L], selectors metav1.ListOptions) pager.ListPageFunc {
	return func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		page.LabelSelector, page.FieldSelector = selectors.LabelSelector, selectors.FieldSelector
		list, err := client.List(ctx, page)
		return list, c.ExplainError(right, err)
	}
}

// List goes through what the selectors select, page by page. An error ends it, and so does the end of ctx: an interrupted list does not look complete.
// The right is the one that listing needs.
func List[T, L runtime.Object](ctx context.Context, c *Cluster, right doctor.Right, client Lister[L], selectors metav1.ListOptions) iter.Seq2[T, error] {
	return listPages[T](ctx, pageLister(c, right, client, selectors))
}

// ListNodes goes through the Nodes in the order of their names.
func (c *Cluster) ListNodes(ctx context.Context) iter.Seq2[*corev1.Node, error] {
	return List[*corev1.Node](ctx, c, c.NodesRight("list"), c.Client.CoreV1().Nodes(), metav1.ListOptions{})
}

// ListRecords goes through the records in the order of their ConfigMaps' names.
func (c *Cluster) ListRecords(ctx context.Context) iter.Seq2[store.Listed, error] {
	marked := metav1.ListOptions{LabelSelector: store.RecordLabel + "=true"}
	return mapSeq(List[*corev1.ConfigMap](ctx, c, c.RecordsRight("list"), c.Client.CoreV1().ConfigMaps(c.Namespace), marked), store.ListedOf)
}

// mapSeq returns the sequence of what fn makes of the items.
func mapSeq[A, B any](items iter.Seq2[A, error], fn func(A) B) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		for item, err := range items {
			var next B
			if err == nil {
				next = fn(item)
			}
			if !yield(next, err) {
				return
			}
		}
	}
}

// stopAtError ends a sequence before its error, which it notes.
func stopAtError[T any](items iter.Seq2[T, error], dest *error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for item, err := range items {
			if err != nil {
				*dest = err
				return
			}
			if !yield(item, nil) {
				return
			}
		}
	}
}

// ListStates lists every Node and every record, each Node name once. It merges two sorted lists, so that only a page or two of each is in memory.
func (c *Cluster) ListStates(ctx context.Context) iter.Seq2[nodestate.State, error] {
	return mergeLists(c.ListNodes(ctx), c.ListRecords(ctx))
}

// ListStatesWithoutRecords lists every Node, without reading records.
func (c *Cluster) ListStatesWithoutRecords(ctx context.Context) iter.Seq2[nodestate.State, error] {
	return mapSeq(c.ListNodes(ctx), func(node *corev1.Node) nodestate.State { return partOfNode(node).State })
}

// ListReadableStates is [Cluster.ListStates] as far as the caller may read records. It notes the error of their list, and continues with Nodes alone.
func (c *Cluster) ListReadableStates(ctx context.Context, recordsErr *error) iter.Seq2[nodestate.State, error] {
	return mergeLists(c.ListNodes(ctx), stopAtError(c.ListRecords(ctx), recordsErr))
}

func mergeLists(nodes iter.Seq2[*corev1.Node, error], records iter.Seq2[store.Listed, error]) iter.Seq2[nodestate.State, error] {
	return func(yield func(nodestate.State, error) bool) {
		// The parts whose order among the ConfigMaps differs from that among the Nodes, by the ConfigMap's name: it is a shortened name, or one that a user
		// has chosen, so it does not sort as the Node's. They come last.
		outOfOrder := map[string]nodestate.State{}
		inOrder := func(parts iter.Seq2[part, error]) (func() (part, error, bool), func()) {
			return iter.Pull2(func(yield func(part, error) bool) {
				for p, err := range parts {
					if err == nil && (store.Shortened(p.Name) || p.configMap != store.Name(p.Name)) {
						outOfOrder[p.configMap] = merge(outOfOrder[p.configMap], p.State)
					} else if !yield(p, err) {
						return
					}
				}
			})
		}
		nextNode, stopNodes := inOrder(mapSeq(nodes, partOfNode))
		defer stopNodes()
		nextRecord, stopRecords := inOrder(mapSeq(records, partOfRecord))
		defer stopRecords()

		node, nodeErr, hasNode := nextNode()
		record, recordErr, recordLeft := nextRecord()
		for hasNode || recordLeft {
			if err := cmp.Or(nodeErr, recordErr); err != nil {
				yield(nodestate.State{}, err)
				return
			}
			var state nodestate.State
			takeNode := hasNode && (!recordLeft || node.Name <= record.Name)
			takeRecord := recordLeft && (!hasNode || record.Name <= node.Name)
			if takeNode {
				state = node.State
				node, nodeErr, hasNode = nextNode()
			}
			if takeRecord {
				state = merge(state, record.State)
				record, recordErr, recordLeft = nextRecord()
			}
			if !yield(state, nil) {
				return
			}
		}
		for _, name := range slices.Sorted(maps.Keys(outOfOrder)) {
			if !yield(outOfOrder[name], nil) {
				return
			}
		}
	}
}

// part is a Node or a record. The name of the ConfigMap leads to its counterpart.
type part struct {
	nodestate.State
	configMap string
}

func partOfNode(node *corev1.Node) part {
	return part{nodestate.State{Name: node.Name, Node: node}, store.Name(node.Name)}
}

func partOfRecord(listed store.Listed) part {
	state := nodestate.State{Name: listed.Node, Unreadable: listed.Err}
	if listed.Err == nil {
		state.Record, state.StoreEntry = &listed.Entry.Record, listed.Entry
	}
	return part{state, listed.ConfigMap}
}

// WithRecord returns a state with a record that was read by itself.
func WithRecord(state nodestate.State, listed store.Listed) nodestate.State {
	return merge(state, partOfRecord(listed).State)
}

// merge combines two states that were read by themselves: that of a Node and that of its record, in either order. A zero state adds nothing.
func merge(a, b nodestate.State) nodestate.State {
	if a.Name == "" || a.Node == nil && b.Node != nil {
		a, b = b, a
	}
	if b.Name != "" && b.Node == nil {
		a.Record, a.StoreEntry, a.Unreadable = b.Record, b.StoreEntry, b.Unreadable
	}
	return a
}
