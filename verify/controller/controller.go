package controller

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	eventrecord "k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/verify"
	"nodekeep.dev/nodekeep/verify/remove"
)

// LeaseName is the Lease that shows which verification controller leads, in the release namespace.
const LeaseName = "nodekeep-verify"

// Options are what a Controller works with. All fields are required but Now.
type Options struct {
	Client    kubernetes.Interface
	Objects   dynamic.Interface      // for what removes Nodes: NodeClaims, Machines
	Profiles  func() verify.Profiles // asked at each decision
	Retention func() time.Duration   // how long reports are kept
	Cluster   verify.Cluster
	Namespace string // of worker Pods and reports
	Image     string // of the worker: nodekeep's own
	Pull      corev1.PullPolicy
	Events    eventrecord.EventRecorder
	Metrics   *Metrics
	Logger    *slog.Logger
	Workers   int           // how many Nodes are worked on at once
	Sweep     time.Duration // how often old reports are removed; 0: never
	Now       func() time.Time
}

// Controller works on each Node that must be verified: see reconcile.
type Controller struct {
	Options

	nodes, pods   cache.SharedIndexInformer
	synced        []cache.InformerSynced
	lookups       *lookups
	queue         workqueue.TypedRateLimitingInterface[string]
	leading       atomic.Bool
	memory        memory
	standing      standing
	controls      controls
	witnesses     witnesses
	trials        trials
	brakes        brakes
	sharedReports sharedReports
	remover       *remove.Remover
	ledger        *remove.Store

	mu     sync.Mutex // guards starts
	starts *verify.Starts
	wake   chan struct{} // holds one value when starts may grant another turn
}

// How long a Node that could not be worked on waits before the next try.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// reconcileTimeout bounds the work on one Node: a call that is never answered must not keep a worker for ever.
const reconcileTimeout = 30 * time.Second

// byNode is the index of what looks like worker Pods, by the Node that they run on.
const byNode = "node"

// New makes a controller; it does nothing until [Controller.Run].
func New(options Options) (*Controller, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	c := &Controller{
		Options: options, wake: make(chan struct{}, 1), starts: verify.NewStarts(options.Profiles().Start),
		lookups: &lookups{client: options.Client, now: options.Now, services: map[string]*lookup{}},
		remover: remove.New(options.Client, options.Objects), ledger: remove.NewStore(options.Client, options.Namespace),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)),
	}
	c.standing.begin()
	c.memory.nodes, c.controls.pods = map[string]remembered{}, map[string]control{}
	c.controls.oldest, c.trials.known = map[string]time.Time{}, map[string]trial{}
	c.brakes.seen, c.sharedReports.facts = map[brakeKey]time.Time{}, map[fact]telling{}
	nodes := store.ListWatch(options.Client, options.Client.CoreV1().Nodes(), "", nil)
	c.nodes = cache.NewSharedIndexInformer(nodes, &corev1.Node{}, 0, cache.Indexers{})
	pods := store.ListWatch(options.Client, options.Client.CoreV1().Pods(options.Namespace), "", nil)
	c.pods = cache.NewSharedIndexInformer(pods, &corev1.Pod{}, 0, cache.Indexers{
		byNode: func(object any) ([]string, error) {
			if p, ok := object.(*pod); ok && p.node != "" {
				return []string{p.node}, nil
			}
			return nil, nil
		},
	})
	for _, watched := range []struct {
		informer cache.SharedIndexInformer
		keep     cache.TransformFunc
		handlers cache.ResourceEventHandlerFuncs
	}{
		{c.nodes, kept(func(n *corev1.Node) any { return nodeOf(n, c.selecting(), c.Cluster.Gate, c.Now()) }), handlers(c.nodeChanged)},
		{c.pods, kept(func(p *corev1.Pod) any { return podOf(p) }), handlers(c.podChanged)},
	} {
		if err := watched.informer.SetTransform(watched.keep); err != nil {
			return nil, fmt.Errorf("watch: %w", err)
		}
		registration, err := watched.informer.AddEventHandler(contain.Handlers(watched.handlers, func(object any, err error) {
			key, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
			c.reportPanic("receive event", key, err)
		}))
		if err != nil {
			return nil, fmt.Errorf("watch: %w", err)
		}
		c.synced = append(c.synced, registration.HasSynced)
	}
	options.Metrics.watch(c)
	options.Metrics.profiles(options.Profiles())
	return c, nil
}

// kept has memory hold what of makes of an object.
func kept[T any](convert func(*T) any) cache.TransformFunc {
	return func(object any) (any, error) {
		if typed, ok := object.(*T); ok {
			return convert(typed), nil
		}
		return object, nil
	}
}

// all returns the objects that an informer has.
func all[T any](informer cache.SharedIndexInformer) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, object := range informer.GetStore().List() {
			if typed, ok := object.(*T); ok && !yield(typed) {
				return
			}
		}
	}
}

// handlers call changed with the object before and after each event; nil: there was none, or is none.
func handlers[T any](changed func(prev, next *T)) cache.ResourceEventHandlerFuncs {
	convert := func(object any) *T {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		typed, _ := object.(*T)
		return typed
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { changed(nil, convert(object)) },
		UpdateFunc: func(oldObject, newObject any) { changed(convert(oldObject), convert(newObject)) },
		DeleteFunc: func(object any) { changed(convert(object), nil) },
	}
}

// selecting returns the profiles by which memory holds Nodes. They select also during an emergency. So what the watch brings then is right when it is ended.
func (c *Controller) selecting() verify.Profiles {
	profiles := c.Profiles()
	profiles.Suspended = false
	return profiles
}

// nodeChanged notes what the process must remember of each event, since the queue holds names and no events.
func (c *Controller) nodeChanged(prev, current *node) {
	profiles := c.Profiles() // of now: the policy may have changed since the watch brought them
	held := func(n *node) bool { return n != nil && len(profiles.ClosingTaints(n.taints)) > 0 }
	wasClosed, isClosed := held(prev), held(current)
	equal := prev != nil && current != nil && prev.uid == current.uid
	if prev != nil && !equal {
		c.memory.forget(prev.uid)
	}
	if c.standing.changed(prev, current, c.Now()) {
		c.Logger.Warn("many nodes are not ready at once: no node is verified again because of a reboot until they are back")
		for n := range all[node](c.nodes) {
			if n.absent {
				c.queue.Add(n.name)
			}
		}
	}
	if prev != nil && prev.rechecked && (current == nil || !current.rechecked) {
		for _, name := range c.standing.next() {
			c.queue.Add(name)
		}
	}
	if equal && wasClosed != isClosed {
		c.memory.interrupt(current.uid, isClosed && verify.Incomplete(prev.taints, c.Cluster.Gate) == "")
	}
	if isClosed {
		c.memory.hold(current.uid, c.Now())
	}
	switch {
	case current == nil:
		c.queue.Add(prev.name)
	case isClosed, wasClosed, current.full != nil, prev != nil && (!equal || prev.reports && current.look.Time.IsZero()):
		c.queue.Add(current.name)
	case !current.look.Time.IsZero():
		c.queue.AddAfter(current.name, current.look.Time.Sub(c.Now()))
	}
}

func (c *Controller) podChanged(prev, current *pod) {
	if !prev.counts() {
		prev = nil
	}
	if !current.counts() {
		current = nil
	}
	if prev != nil && prev.nodeName != "" || current != nil && current.nodeName != "" {
		c.controlChanged(prev, current)
		return
	}
	if prev != nil && (current == nil || current.UID != prev.UID) {
		c.starting(func(starts *verify.Starts) { starts.Gone(prev.UID) })
		c.queue.Add(prev.node)
	}
	if current != nil {
		c.starting(func(starts *verify.Starts) { starts.Exists(current.UID) })
		c.queue.Add(current.node)
	}
}

// starting changes who may start a worker Pod.
func (c *Controller) starting(change func(*verify.Starts)) {
	c.mu.Lock()
	change(c.starts)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default: // it is about to be read
	}
}

// EnqueueAll has every Node looked at: after a change of the policy, and when the process begins to lead.
func (c *Controller) EnqueueAll() {
	profiles := c.Profiles()
	c.Metrics.profiles(profiles)
	c.starting(func(starts *verify.Starts) { starts.Limit(profiles.Start, c.Now()) })
	for _, name := range c.nodes.GetStore().ListKeys() {
		c.queue.Add(name)
	}
	c.enqueueWorkers()
	c.queue.Add(controlWork)
	c.enqueueTrials()
}

// enqueueWorkers has every Node looked at that has a worker Pod.
func (c *Controller) enqueueWorkers() {
	for p := range all[pod](c.pods) {
		if p.node != "" {
			c.queue.Add(p.node)
		}
	}
}

// NodesSynced and PodsSynced report whether what existed at the start has been observed.
func (c *Controller) NodesSynced() bool { return c.synced[0]() }

// PodsSynced is as NodesSynced.
func (c *Controller) PodsSynced() bool { return c.synced[1]() }

// Leading reports whether the controller leads.
func (c *Controller) Leading() bool { return c.leading.Load() }

// Lead lets the controller act, from now on until the process ends.
func (c *Controller) Lead() {
	c.leading.Store(true)
	c.EnqueueAll()
}

// Run watches and works until ctx is done.
func (c *Controller) Run(ctx context.Context) error {
	var done sync.WaitGroup
	defer done.Wait()
	defer c.queue.ShutDown()
	done.Go(func() { c.nodes.RunWithContext(ctx) })
	done.Go(func() { c.pods.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return nil // told to stop before the start was over
	}
	done.Go(func() { c.grantTurns(ctx) })
	if c.Sweep > 0 {
		done.Go(func() { wait.JitterUntilWithContext(ctx, c.sweepReports, c.Sweep, 0.1, false) })
	}
	for range c.Workers {
		done.Go(func() { c.work(ctx) })
	}
	<-ctx.Done()
	return nil
}

// grantTurns has Nodes reconciled when it is their turn to start a worker Pod.
func (c *Controller) grantTurns(ctx context.Context) {
	for {
		c.mu.Lock()
		node, delay := c.starts.Next(c.Now())
		c.mu.Unlock()
		if node != "" {
			c.queue.Add(node)
			continue
		}
		if delay == 0 {
			delay = time.Minute // nothing waits, or no Pod may be added
		}
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-c.wake:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

func (c *Controller) work(ctx context.Context) {
	for {
		name, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		err := c.contained("reconcile node", name, func() error {
			ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
			defer cancel()
			if profile, ok := strings.CutPrefix(name, controlWork); ok {
				return c.workControls(ctx, profile)
			}
			if profile, ok := strings.CutPrefix(name, trialWork); ok {
				return c.workTrial(ctx, profile)
			}
			return c.reconcile(ctx, name)
		})
		switch {
		case err == nil || ctx.Err() != nil:
			c.queue.Forget(name)
		case errors.Is(err, errNoTurn): // a Node whose Pod could not be created keeps its backoff
		case errors.Is(err, remove.ErrChanged):
			c.Metrics.errors.WithLabelValues(nodeConflict).Inc()
			c.queue.AddRateLimited(name) // the watch is about to bring the newer state
		default:
			c.Logger.Warn("node is tried again", "node", name, "error", err, "try", c.queue.NumRequeues(name)+1)
			c.Metrics.errors.WithLabelValues(failure).Inc()
			c.queue.AddRateLimited(name)
		}
		c.queue.Done(name)
	}
}

// contained does the work on one object. A panic in it is logged and counted, and is an error like any other.
func (c *Controller) contained(work, node string, fn func() error) error {
	err := contain.Call(fn)
	c.reportPanic(work, node, err)
	return err
}

func (c *Controller) reportPanic(work, node string, err error) {
	if cause, ok := contain.IsPanic(err); ok {
		c.Logger.Error("work on one object panicked; please report this with the stack", "work", work, "node", node, "error", cause)
		c.Metrics.errors.WithLabelValues(panicked).Inc()
	}
}
