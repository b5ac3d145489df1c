package capture

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	eventrecord "k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/keymutex"

	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// Records is where capture keeps what it remembers; [store.ConfigMaps] in a cluster.
type Records interface {
	Get(node string) (store.Entry, error)
	GetLive(ctx context.Context, node string) (store.Entry, error)
	Put(ctx context.Context, r record.Record, version string) (store.Entry, error)
	// Nodes lists the names of all Nodes that there is a record of, from memory.
	Nodes() []string
}

// Options are what a Controller works with. All fields are required but Cluster, Resync, Now and LongestPause.
type Options struct {
	Client    kubernetes.Interface
	Records   Records
	Policy    func() policy.Policy // asked at each decision
	Events    eventrecord.EventRecorder
	Guard     *guard.Guard
	Cluster   func() string // UID of the namespace kube-system; empty while it is not known
	Metrics   *Metrics
	Logger    *slog.Logger
	Namespace string        // of the records
	Workers   int           // how many Nodes are worked on at once
	Resync    time.Duration // how often every Node is looked at again; 0: never
	Now       func() time.Time
	// LongestPause is how long nodekeep waits at most before it sets an item again that another client undoes; 0: five minutes.
	LongestPause time.Duration
}

// Controller works on each Node of which something was observed, and on each record that changed: see reconcile. While it does not lead, it
// leaves that to the leader; see standby.go.
type Controller struct {
	Options

	informer     cache.SharedIndexInformer
	synced       cache.ResourceEventHandlerRegistration
	observations *observations
	refusals     *refusals
	reported     *reported
	brake        *brake
	coalescer    *coalescer
	standby      *standby
	queue        workqueue.TypedRateLimitingInterface[string]
	nodes        keymutex.KeyMutex // one at a time works on a Node; the queue sees to that among workers, a sweep comes beside it
	leading      atomic.Bool
	aheadFor     time.Duration // see the constant
}

// How long a Node that could not be dealt with waits before the next try.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// nodeLocks is how many locks the names of Nodes share. A Node waits for another one only if that happens to have the same.
const nodeLocks = 1024

// turn is how long one look at a Node may take: a call that is never answered must not keep a worker for ever.
const turn = 30 * time.Second

// New makes a controller; it does nothing until [Controller.Run].
func New(options Options) (*Controller, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Cluster == nil {
		options.Cluster = func() string { return "" }
	}
	if options.LongestPause == 0 {
		options.LongestPause = longestPause
	}
	informer, err := newNodeInformer(options.Client)
	if err != nil {
		return nil, err
	}
	c := &Controller{
		Options:  options,
		informer: informer,
		refusals: newRefusals(),
		reported: newReported(),
		aheadFor: aheadFor,
		brake:    newBrake(options.LongestPause), coalescer: newCoalescer(recordInterval), standby: newStandby(), nodes: keymutex.NewHashed(nodeLocks),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)),
	}
	c.observations = newObservations(c.gated, c.liftedAfter, options.Now)
	c.synced, err = feed(informer, c.observations, c.queue.Add, func(node string, err error) { c.reportPanic("receive node", node, err) })
	if err != nil {
		return nil, err
	}
	options.Metrics.watch(c)
	return c, nil
}

func (c *Controller) gated(taints []corev1.Taint) bool { return c.Policy().Gate().On(taints) }

// liftedAfter measures how long a Node was gated; of all processes only the leader does, so that sums are right.
func (c *Controller) liftedAfter(gated time.Duration) {
	if c.leading.Load() {
		c.Metrics.lifted(gated)
	}
}

// Enqueue has a Node looked at; every change of its record must lead here.
func (c *Controller) Enqueue(node string) {
	c.standby.recordChanged(node, func() string {
		entry, _ := c.Records.Get(node) // without a record, or with an unreadable one, the version says so, too
		return entry.Version
	}, c.Now())
	c.queue.Add(node)
}

// EnqueueAll has every Node looked at, and what the API server refused or another client undid is tried again: after a
// change of the policy.
func (c *Controller) EnqueueAll() {
	c.refusals.clear()
	c.brake.clear()
	c.enqueueAll()
}

func (c *Controller) enqueueAll() {
	for _, name := range c.observations.names() {
		c.queue.Add(name)
	}
	for _, name := range c.Records.Nodes() {
		c.queue.Add(name)
	}
}

// Synced reports whether every Node that existed at the start has been seen.
func (c *Controller) Synced() bool { return c.synced.HasSynced() }

// Leading reports whether the controller leads.
func (c *Controller) Leading() bool { return c.leading.Load() }

// Knows reports whether a Node lives or waits to be worked on, as far as the watch has told.
func (c *Controller) Knows(node string) bool { return c.observations.knows(node) }

// Exclusive waits until nobody works on a Node, and keeps it so until release is called.
func (c *Controller) Exclusive(node string) (release func()) {
	c.nodes.LockKey(node)
	return func() { _ = c.nodes.UnlockKey(node) } // it has no error to return
}

// Lead lets the controller act at once, from now on until the process ends.
func (c *Controller) Lead() {
	c.leading.Store(true)
	c.enqueueAll()
}

// Run watches Nodes and works until ctx is done. recordsSynced tells when the records are in memory: before that, nothing
// is decided.
func (c *Controller) Run(ctx context.Context, recordsSynced func() bool) error {
	var done sync.WaitGroup
	defer done.Wait()
	defer c.queue.ShutDown()
	done.Go(func() { c.informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), c.Synced, recordsSynced) {
		return nil // told to stop before the start was over
	}
	c.Guard.Check(ctx) // before the first decision
	done.Go(func() { c.Guard.Run(ctx) })
	done.Go(func() { c.resync(ctx) })
	done.Go(func() { c.takeOver(ctx) })
	for range c.Workers {
		done.Go(func() { c.work(ctx) })
	}
	<-ctx.Done()
	return nil
}

// resync looks at every Node from time to time: a safety net. Where nothing differs, nothing is written.
func (c *Controller) resync(ctx context.Context) {
	if c.Resync == 0 {
		return
	}
	ticker := time.NewTicker(c.Resync)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.enqueueAll()
		}
	}
}

func (c *Controller) work(ctx context.Context) {
	for {
		node, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		if err := c.inTurn(ctx, node); err != nil && ctx.Err() == nil {
			c.Logger.Warn("node is tried again", "node", node, "error", err, "try", c.queue.NumRequeues(node)+1)
			c.Metrics.failed()
			c.queue.AddRateLimited(node)
		} else {
			c.queue.Forget(node)
		}
		c.queue.Done(node)
	}
}

// process works on one name, and notes for the metrics how that left it.
func (c *Controller) process(ctx context.Context, name string) error {
	c.observations.start(name)
	done := false
	defer func() { c.observations.finish(name, done) }() // also after a panic
	done, err := c.reconcile(ctx, name)
	return err
}

func (c *Controller) inTurn(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, turn)
	defer cancel()
	defer c.Exclusive(node)()
	return c.Contained("reconcile node", node, func() error { return c.process(ctx, node) })
}

// Contained does the work on one object. A panic in it is logged and counted, and is an error like any other: neither the
// process nor the work on other objects ends.
func (c *Controller) Contained(work, node string, do func() error) error {
	err := contain.Call(do)
	c.reportPanic(work, node, err)
	return err
}

func (c *Controller) reportPanic(work, node string, err error) {
	if panicked, ok := contain.IsPanic(err); ok {
		c.Logger.Error("work on one object panicked; please report this with the stack", "work", work, "node", node, "error", panicked)
		c.Metrics.panicked()
	}
}
