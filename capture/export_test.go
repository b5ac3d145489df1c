package capture

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"nodekeep.dev/nodekeep/capture/pace"
	"nodekeep.dev/nodekeep/observe"
)

// Process is a controller without an informer, a clock and goroutines: the simulation delivers each event and starts each
// reconcile. It is all that the simulation sees of this package's inside.
type Process struct {
	*Controller
	handler cache.ResourceEventHandler
	queue   *manualQueue
}

// PendingState is a state of a Node object that the next reconcile works on.
type PendingState struct {
	UID             types.UID
	ResourceVersion string
	Gone            bool
}

// NewProcess makes a process. It waits for no longer than pause before it writes a record of a busy Node or sets again what another
// client undid; 0: it never waits. Each wait is reported to delayed.
func NewProcess(options Options, pause time.Duration, delayed func(node string, wait time.Duration)) *Process {
	p := &Process{queue: &manualQueue{delayed: delayed, ready: map[string]bool{}, later: map[string]bool{}}}
	p.Controller = newController(options, p.queue)
	p.fights, p.coalescer, p.boots = pace.NewFights(pause), pace.NewCoalescer(pause), pace.NewCoalescer(pause)
	var watch silentInformer
	_, _ = addNodeHandlers(&watch, p.observations, p.queue.Add, func(_ string, err error) { panic(err) })
	p.handler = watch.handler
	return p
}

// Added delivers an event of the watch, or of the first list.
func (p *Process) Added(node *corev1.Node, first bool) {
	p.handler.OnAdd(observe.CompactNodeOf(observe.FromNode(node)), first)
}

// Updated delivers an event of the watch.
func (p *Process) Updated(prev, node *corev1.Node) {
	p.handler.OnUpdate(observe.CompactNodeOf(observe.FromNode(prev)), observe.CompactNodeOf(observe.FromNode(node)))
}

// Deleted delivers an event of the watch; missed says that only a later list has shown it.
func (p *Process) Deleted(node *corev1.Node, missed bool) {
	if missed {
		p.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: node.Name, Obj: observe.CompactNodeOf(observe.FromNode(node))})
	} else {
		p.handler.OnDelete(observe.CompactNodeOf(observe.FromNode(node)))
	}
}

// Leads reports whether the process may act.
func (p *Process) Leads() bool { return p.leading.Load() }

// Due returns the names in the queue, sorted.
func (p *Process) Due() []string { return slices.Sorted(maps.Keys(p.queue.ready)) }

// Retry says that the time of all that waits has come.
func (p *Process) Retry() {
	maps.Copy(p.queue.ready, p.queue.later)
	clear(p.queue.later)
}

// Resync queues every Node, and forgets nothing.
func (p *Process) Resync() { p.enqueueAll() }

// Pending returns the states of a name that the next reconcile works on.
func (p *Process) Pending(name string) (pending []PendingState) {
	gone, live := p.observations.get(name)
	for _, node := range gone {
		pending = append(pending, PendingState{node.UID, node.ResourceVersion, true})
	}
	if live != nil {
		pending = append(pending, PendingState{live.UID, live.ResourceVersion, false})
	}
	return pending
}

// Reconcile works on one Node of the queue. done says that all states of it that were pending count now.
func (p *Process) Reconcile(ctx context.Context, name string) (done bool) {
	delete(p.queue.ready, name)
	acts := p.Leads()
	p.queue.waits = false
	if err := p.reconcileOne(ctx, name); err != nil {
		p.queue.later[name] = true
		return false
	}
	return p.shuttingDown.Load() || acts && !p.queue.waits
}

// End begins the end of the process, and returns the Nodes that it reconciles before.
func (p *Process) End() (waiting []string) {
	p.shuttingDown.Store(true)
	return p.observations.waiting()
}

// WronglySkipped says what is to be done for a Node that a resync would not queue; empty if there is no such thing.
func (p *Process) WronglySkipped(name string) Step {
	_, live := p.observations.get(name)
	if live == nil || !p.observations.unchangedSinceIdle(name, p.resyncInputsOf(name)) {
		return ""
	}
	w := &nodeWork{Controller: p.Controller, node: live, presence: NodePresent}
	if err := w.noteEntry(p.Records.Get(name)); err != nil {
		panic(err)
	}
	if next := w.decide(); !w.nothingToDo(next) {
		return next.Step
	}
	return ""
}

// WrongCounts says how the metrics differ from a walk over the Nodes; empty if they do not.
func (p *Process) WrongCounts() string {
	var live, current, gated int
	for name, states := range p.observations.byName {
		if states.live == nil {
			continue
		}
		live++
		if p.observations.pending[name] == nil {
			current++
		} else if p.Leads() {
			return fmt.Sprintf("the record of %s is not current", name)
		}
		if p.observations.hasGate(states.live.Taints()) {
			gated++
		}
	}
	if nLive, nCurrent, nGated := p.observations.counts(); nLive != live || nCurrent != current || nGated != gated {
		return fmt.Sprintf("the metrics count %d Nodes, %d current, %d gated; there are %d, %d, %d", nLive, nCurrent, nGated, live, current, gated)
	}
	return ""
}

// manualQueue is a queue without a clock.
type manualQueue struct {
	workqueue.TypedRateLimitingInterface[string]
	delayed      func(node string, wait time.Duration)
	ready, later map[string]bool
	waits        bool // the reconcile left something for later
}

func (q *manualQueue) Add(name string)            { q.ready[name] = true }
func (q *manualQueue) Forget(string)              {}
func (q *manualQueue) Done(string)                {}
func (q *manualQueue) NumRequeues(string) int     { return 0 }
func (q *manualQueue) AddRateLimited(name string) { q.later[name] = true }
func (q *manualQueue) AddAfter(name string, wait time.Duration) {
	q.delayed(name, wait)
	q.later[name], q.waits = true, true
}

// silentInformer is an informer that does nothing but take a handler.
type silentInformer struct {
	cache.SharedIndexInformer
	handler cache.ResourceEventHandler
}

func (h *silentInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	h.handler = handler
	return nil, nil
}
