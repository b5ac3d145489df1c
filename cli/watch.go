package cli

import (
	"context"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/store"
)

// eventsWaiting is how many names of Nodes that have changed may wait before the watches do.
const eventsWaiting = 1000

// watch shows the list and then a line for each Node whose line has become another one, until Ctrl-C. What it goes by besides,
// the policy above all, is as it was at the start.
func (o *listOptions) watch(ctx context.Context, c *cluster, in capture.Circumstances, want func(view.NodeState, view.Summary) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := newWatched(c)
	if err := w.start(ctx, cancel); err != nil {
		return err
	}
	lines := lines{output: &o.output, cluster: c, now: in.Now}
	printed := map[string]view.Summary{}
	for _, state := range w.all() {
		summary := view.SummaryOf(state, in)
		if printed[state.Name] = summary; want(state, summary) {
			if err := lines.each(summary); err != nil {
				return err
			}
		}
	}
	for {
		if err := lines.flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return watchEnded(ctx)
		case name := <-w.changed:
			state := w.state(name)
			in.Now, lines.now = c.now(), c.now()
			summary := view.SummaryOf(state, in)
			if before, is := printed[name]; is && before.Same(summary) || !want(state, summary) {
				continue
			}
			printed[name] = summary
			if err := lines.each(summary); err != nil {
				return err
			}
		}
	}
}

// watchEnded says why: Ctrl-C, or what the API server said.
func watchEnded(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return exitError{exitInterrupted, errors.New("interrupted: not watching any more")}
}

// watched are the Nodes and the records, kept current by watches.
type watched struct {
	cluster        *cluster
	nodes, records cache.SharedIndexInformer
	changed        chan string // names of Nodes
}

func newWatched(c *cluster) *watched {
	nodes := store.ListWatch(c.client, c.client.CoreV1().Nodes(), "", nil)
	records := store.ListWatch(c.client, c.client.CoreV1().ConfigMaps(c.namespace), store.RecordLabel+"=true", nil)
	return &watched{
		cluster: c,
		nodes:   cache.NewSharedIndexInformer(nodes, &corev1.Node{}, 0, cache.Indexers{}),
		records: cache.NewSharedIndexInformer(records, &corev1.ConfigMap{}, 0, cache.Indexers{}),
		changed: make(chan string, eventsWaiting),
	}
}

// start returns when all is read that there was at the start. What can only be mended by a person ends the watch later, too.
func (w *watched) start(ctx context.Context, end context.CancelCauseFunc) error {
	for _, part := range []struct {
		informer cache.SharedIndexInformer
		access   access
		nameOf   func(object any) string
	}{
		{w.nodes, w.cluster.toNodes("watch"), nodeOf},
		{w.records, w.cluster.toRecords("watch"), recordedNodeOf},
	} {
		if err := part.informer.SetTransform(withoutStatus); err != nil {
			return err
		}
		if err := part.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			if err := w.cluster.failed(part.access, err); !apierrors.IsResourceExpired(err) && !part.informer.HasSynced() || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
				end(err)
			}
		}); err != nil {
			return err
		}
		note := func(object any) {
			select {
			case w.changed <- part.nameOf(object):
			case <-ctx.Done():
			}
		}
		registration, err := part.informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(object any, initial bool) {
				if !initial {
					note(object)
				}
			},
			UpdateFunc: func(_, object any) { note(object) },
			DeleteFunc: note,
		})
		if err != nil {
			return err
		}
		go part.informer.RunWithContext(ctx)
		if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			return watchEnded(ctx)
		}
	}
	return nil
}

// withoutStatus drops what is most of a Node and is not looked at.
func withoutStatus(object any) (any, error) {
	if node, is := object.(*corev1.Node); is {
		info := node.Status.NodeInfo
		node.Status = corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: info.SystemUUID, MachineID: info.MachineID}}
	}
	return object, nil
}

func nodeOf(object any) string {
	name, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	return name
}

func recordedNodeOf(object any) string {
	if tombstone, gone := object.(cache.DeletedFinalStateUnknown); gone {
		object = tombstone.Obj
	}
	cm, is := object.(*corev1.ConfigMap)
	if !is {
		return ""
	}
	return store.ListedOf(cm).Node
}

// state is what is known of one Node now.
func (w *watched) state(name string) view.NodeState {
	state := view.NodeState{Name: name}
	if object, found, _ := w.nodes.GetStore().GetByKey(name); found {
		state.Node, _ = object.(*corev1.Node)
	}
	if object, found, _ := w.records.GetStore().GetByKey(w.cluster.namespace + "/" + store.Name(name)); found {
		if cm, is := object.(*corev1.ConfigMap); is {
			state = joinedTo(state, store.ListedOf(cm))
		}
	}
	return state
}

// all are all states, in the order of their names.
func (w *watched) all() []view.NodeState {
	names := map[string]bool{}
	for _, object := range w.nodes.GetStore().List() {
		names[nodeOf(object)] = true
	}
	for _, object := range w.records.GetStore().List() {
		names[recordedNodeOf(object)] = true
	}
	states := make([]view.NodeState, 0, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		states = append(states, w.state(name))
	}
	return states
}

// each prints a line at once, or with others that are printed at the same time.
func (l *lines) each(summary view.Summary) error {
	switch {
	case l.output.table():
		return l.add(summary)
	case l.output.format == "name":
		return l.output.nodeNames(l.cluster.Out, []string{summary.Name})
	default:
		return l.output.object(l.cluster.Out, "NodeSummary", summary)
	}
}

func (l *lines) flush() error {
	if len(l.waiting) == 0 {
		return nil
	}
	return l.print()
}
