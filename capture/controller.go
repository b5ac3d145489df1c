package capture

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// Records is where capture keeps what it remembers; [store.ConfigMaps] in a cluster.
type Records interface {
	Get(node string) (store.Entry, error)
	GetLive(ctx context.Context, node string) (store.Entry, error)
	Put(ctx context.Context, record store.Record, version string) (store.Entry, error)
	// Nodes lists the names of all Nodes that there is a record of, from memory.
	Nodes() []string
}

// Options are what a Controller works with. All fields are required but Now.
type Options struct {
	Client  kubernetes.Interface
	Records Records
	Policy  func() policy.Policy // asked at each plan
	Events  record.EventRecorder
	// Gatekeeping knows which Nodes were born behind the gate.
	Gatekeeping *Gatekeeping
	Metrics     *Metrics
	Logger      *slog.Logger
	Workers     int // how many Nodes are worked on at once
	Now         func() time.Time
}

// Controller turns Node events into plans and carries them out while it leads. While it does not, it only keeps its
// caches warm and forgets what the leader has dealt with.
type Controller struct {
	Options

	informer  cache.SharedIndexInformer
	synced    cache.ResourceEventHandlerRegistration
	sightings *sightings
	refusals  *refusals
	reported  *reported
	queue     workqueue.TypedRateLimitingInterface[string]
	leading   atomic.Bool
}

// How long a Node that could not be dealt with waits before the next try.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// New makes a controller; it does nothing until [Controller.Run].
func New(options Options) (*Controller, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	informer, err := newNodeInformer(options.Client)
	if err != nil {
		return nil, err
	}
	c := &Controller{
		Options:   options,
		informer:  informer,
		sightings: newSightings(),
		refusals:  newRefusals(),
		reported:  newReported(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)),
	}
	c.synced, err = feed(informer, c.sightings, c.queue.Add)
	if err != nil {
		return nil, err
	}
	options.Metrics.watch(c)
	return c, nil
}

// Enqueue has a Node looked at; every change of its record must lead here.
func (c *Controller) Enqueue(node string) { c.queue.Add(node) }

// EnqueueAll has every Node looked at, and what the API server refused is tried again: after a change of the policy.
func (c *Controller) EnqueueAll() {
	c.refusals.clear()
	for _, name := range c.sightings.names() {
		c.queue.Add(name)
	}
	for _, name := range c.Records.Nodes() {
		c.queue.Add(name)
	}
}

// Synced reports whether every Node that existed at the start has been seen.
func (c *Controller) Synced() bool { return c.synced.HasSynced() }

// Lead lets the controller act, from now on until the process ends.
func (c *Controller) Lead() {
	c.leading.Store(true)
	c.EnqueueAll()
}

// Run watches Nodes and works until ctx is done. recordsSynced tells when the records are in memory: before that, no
// plan is made.
func (c *Controller) Run(ctx context.Context, recordsSynced func() bool) error {
	var done sync.WaitGroup
	defer done.Wait()
	defer c.queue.ShutDown()
	done.Go(func() { c.informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), c.Synced, recordsSynced) {
		return nil // told to stop before the start was over
	}
	c.Gatekeeping.Look(ctx) // before the first plan
	done.Go(func() { c.Gatekeeping.Run(ctx) })
	for range c.Workers {
		done.Go(func() { c.work(ctx) })
	}
	<-ctx.Done()
	return nil
}

func (c *Controller) work(ctx context.Context) {
	for {
		node, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		if err := c.process(ctx, node); err != nil && ctx.Err() == nil {
			c.Logger.Warn("node is tried again", "node", node, "error", err, "try", c.queue.NumRequeues(node)+1)
			c.Metrics.failed()
			c.queue.AddRateLimited(node)
		} else {
			c.queue.Forget(node)
		}
		c.queue.Done(node)
	}
}

// process deals with one name: objects that went, oldest first, then the one that lives, or that none does.
func (c *Controller) process(ctx context.Context, name string) error {
	gone, live := c.sightings.look(name)
	for _, last := range gone {
		dealt, err := c.settle(ctx, last, Deleted)
		if err != nil {
			return err
		}
		if !dealt {
			return nil
		}
		c.sightings.settled(name, last.UID)
		c.refusals.forget(name, last.UID)
	}
	if live != nil {
		_, err := c.settle(ctx, live, Present)
		return err
	}
	return c.settleAbsent(ctx, name)
}

// settleAbsent marks the record of a Node that is gone although nobody saw it go. That it is in no cache proves
// nothing; that the API server says so does.
func (c *Controller) settleAbsent(ctx context.Context, name string) error {
	entry, err := c.Records.Get(name)
	if !c.leading.Load() || err != nil || entry.Record.DeletedAt != nil && entry.Record.Accepted == "" {
		return nil //nolint:nilerr // no record, or none that may be touched: nothing to mark
	}
	switch _, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		_, err := c.settle(ctx, &Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, Absent)
		return err
	case err != nil:
		return fmt.Errorf("look for node %q: %w", name, err)
	default:
		return nil // it lives; the watch will bring it
	}
}

// maxSteps bounds the steps for one sight of a Node; a Node that needs more is contended and comes again later.
const maxSteps = 20

// settle plans and acts until nothing is left to do for one sight of a Node. dealt is false where there is something to do
// but this controller does not lead.
func (c *Controller) settle(ctx context.Context, seen *Node, event Event) (dealt bool, err error) {
	a := &attempt{Controller: c, seen: seen, event: event}
	if err := a.read(c.Records.Get(seen.Name)); err != nil {
		return false, err
	}
	for range maxSteps {
		if a.unreadable {
			return true, nil
		}
		next := a.plan()
		if next.Step == Nothing && !a.entry.Unlisted {
			return true, nil
		}
		if !c.leading.Load() {
			return false, nil
		}
		if err := a.act(ctx, next); err != nil || a.over {
			return err == nil, err
		}
	}
	return false, errors.New("act on node: it keeps changing")
}
