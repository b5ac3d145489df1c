package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/store"
)

// changedBuffer is how many names of Nodes that have changed may wait before the watches do.
const changedBuffer = 1000

// watch shows the list and then a line for each Node whose line has changed, until Ctrl-C. All else that it goes by, the policy above
// all, is as it was at the start.
func (c *session) watch(ctx context.Context, lines *lines) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := newNodeWatch(c)
	if err := w.start(ctx, cancel); err != nil {
		return err
	}
	printed := printed{}
	show := func(name string) error {
		state := w.state(name)
		c.inputs.Now = c.Now()
		summary := view.SummaryOf(state, c.inputs)
		if !printed.changed(summary, lines.filter(state, summary)) {
			return nil
		}
		return lines.print(summary)
	}
	for _, name := range w.names() {
		if err := show(name); err != nil {
			return err
		}
	}
	connection := c.reportConnection(ctx)
	for {
		if err := lines.flush(); err != nil {
			return err
		}
		select {
		case news := <-connection:
			c.say("%s", news)
		case <-ctx.Done():
			return watchEnded(ctx)
		case name := <-w.changed:
			if err := show(name); err != nil {
				return err
			}
		}
	}
}

// printed is the last line of each Node that was wanted, by name.
type printed map[string]view.Summary

// changed reports whether a line is to be printed: it is wanted, and says something else than the last one. The watch of records may
// be ahead of that of Nodes. So a line can begin to match the filter although nothing of it has changed.
func (p printed) changed(summary view.Summary, wanted bool) bool {
	prev, ok := p[summary.Name]
	if !wanted {
		delete(p, summary.Name)
		return false
	}
	p[summary.Name] = summary
	return !ok || !prev.Equal(summary)
}

// While a list is watched, the API server is asked something small every probeInterval. A watch alone notices only after most of a minute
// that the connection is lost.
const (
	probeInterval = 2 * time.Second
	probeTimeout  = 5 * time.Second
)

// reportConnection reports when the connection to the API server is lost, and when it is there again. Any answer shows that it is there.
func (c *session) reportConnection(ctx context.Context) <-chan string {
	news := make(chan string)
	go func() {
		lost := false
		for {
			sleep(ctx, probeInterval)
			probe, cancel := context.WithTimeout(ctx, probeTimeout)
			err := c.Client.Discovery().RESTClient().Get().AbsPath("/version").MaxRetries(0).Do(probe).Error()
			cancel()
			var status apierrors.APIStatus
			failed := err != nil && !errors.As(err, &status)
			switch {
			case ctx.Err() != nil:
				return
			case failed == lost:
				continue
			}
			text := "connected again: the list is followed"
			if lost = failed; lost {
				text = fmt.Sprintf("connection lost: the API server at %s does not answer (%v). The list may be stale; waiting for the API server.", c.Config.Host, err)
			}
			select {
			case news <- text:
			case <-ctx.Done():
				return
			}
		}
	}()
	return news
}

// watchEnded reports why: Ctrl-C, or what the API server said.
func watchEnded(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return exitError{exitInterrupted, errors.New("interrupted: the watch has ended")}
}

// nodeWatch are the Nodes and the records, kept current by watches.
type nodeWatch struct {
	session        *session
	nodes, records cache.SharedIndexInformer
	changed        chan string // names of Nodes
}

func newNodeWatch(c *session) *nodeWatch {
	nodes := store.ListWatch(c.Client, c.Client.CoreV1().Nodes(), "", nil)
	records := store.ListWatch(c.Client, c.Client.CoreV1().ConfigMaps(c.Namespace), store.RecordLabel+"=true", nil)
	return &nodeWatch{
		session: c,
		nodes:   cache.NewSharedIndexInformer(nodes, &corev1.Node{}, 0, cache.Indexers{}),
		records: cache.NewSharedIndexInformer(records, &corev1.ConfigMap{}, 0, cache.Indexers{}),
		changed: make(chan string, changedBuffer),
	}
}

// start returns when all is read that there was at the start. A permanent error also ends a running watch.
func (w *nodeWatch) start(ctx context.Context, end context.CancelCauseFunc) error {
	for _, part := range []struct {
		informer cache.SharedIndexInformer
		access   doctor.Right
	}{{w.nodes, w.session.NodesRight("watch")}, {w.records, w.session.RecordsRight("watch")}} {
		if err := part.informer.SetTransform(withoutStatus); err != nil {
			return err
		}
		if err := part.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			if err := w.session.ExplainError(part.access, err); !apierrors.IsResourceExpired(err) && !part.informer.HasSynced() || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
				end(err)
			}
		}); err != nil {
			return err
		}
		changed := func(object any) {
			select {
			case w.changed <- nodeOf(object):
			case <-ctx.Done():
			}
		}
		registration, err := part.informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(object any, initial bool) {
				if !initial {
					changed(object)
				}
			},
			UpdateFunc: func(_, object any) { changed(object) },
			DeleteFunc: changed,
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

// withoutStatus drops the larger part of a Node, which nothing here reads.
func withoutStatus(object any) (any, error) {
	if node, ok := object.(*corev1.Node); ok {
		info := node.Status.NodeInfo
		node.Status = corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: info.SystemUUID, MachineID: info.MachineID}}
	}
	return object, nil
}

// nodeOf returns the name of the Node that an object is, or is the record of.
func nodeOf(object any) string {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	switch object := object.(type) {
	case *corev1.Node:
		return object.Name
	case *corev1.ConfigMap:
		return store.ListedOf(object).Node
	default:
		return ""
	}
}

// state returns a Node and its record as they are now.
func (w *nodeWatch) state(name string) nodestate.State {
	state := nodestate.State{Name: name}
	if object, found, _ := w.nodes.GetStore().GetByKey(name); found {
		state.Node, _ = object.(*corev1.Node)
	}
	if object, found, _ := w.records.GetStore().GetByKey(w.session.Namespace + "/" + store.Name(name)); found {
		if cm, ok := object.(*corev1.ConfigMap); ok {
			state = cluster.WithRecord(state, store.ListedOf(cm))
		}
	}
	return state
}

// names returns those of all Nodes and records, sorted.
func (w *nodeWatch) names() []string {
	names := map[string]bool{}
	for _, object := range slices.Concat(w.nodes.GetStore().List(), w.records.GetStore().List()) {
		names[nodeOf(object)] = true
	}
	return slices.Sorted(maps.Keys(names))
}
