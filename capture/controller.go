package capture

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	eventrecord "k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/keymutex"

	"nodekeep.dev/nodekeep/capture/brake"
	"nodekeep.dev/nodekeep/capture/fleet"
	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/capture/pace"
	"nodekeep.dev/nodekeep/capture/rollout"
	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// RecordStore is where capture keeps what it remembers; [store.ConfigMaps] in a cluster.
type RecordStore interface {
	Get(node string) (store.Entry, error)
	GetFromAPI(ctx context.Context, node string) (store.Entry, error)
	// ListByMachine returns the records that [record.Predecessor] chooses from, from memory.
	ListByMachine(m record.Machine) ([]record.Record, error)
	Put(ctx context.Context, r record.Record, version string) (store.Entry, error)
	// NodeNames lists the names of all Nodes that there is a record of, from memory.
	NodeNames() []string
}

// PolicySource is the NodePolicy that the policy in force comes from; [nodepolicy.Source] in a cluster.
type PolicySource interface {
	// UID is empty while there is no such object.
	UID() types.UID
	// Accepted is the manifest, as JSON, of the policy in force; nil: it does not come from the object.
	Accepted() []byte
	// Err is why the policy in force is not what the object says.
	Err() error
}

// noPolicySource is for a policy that comes from no object.
type noPolicySource struct{}

func (noPolicySource) UID() types.UID   { return "" }
func (noPolicySource) Accepted() []byte { return nil }
func (noPolicySource) Err() error       { return nil }

// Options are what a Controller works with. All fields are required but PolicySource, ClusterUID, Resync, Now and Dynamic.
type Options struct {
	Client       kubernetes.Interface
	Records      RecordStore
	Policy       func() policy.Policy // asked at each decision
	PolicySource PolicySource         // where the policy comes from
	Events       eventrecord.EventRecorder
	Guard        *guard.Guard
	ClusterUID   func() string // UID of the namespace kube-system; empty while it is not known
	Metrics      *Metrics
	Logger       *slog.Logger
	Namespace    string        // of the records
	Workers      int           // how many Nodes are worked on at once
	Resync       time.Duration // how often every Node is looked at again; 0: never
	Now          func() time.Time
	// LabelPatchesPerSecond is how many Nodes are changed a second at most only for the labels that rules set; 0: 50.
	LabelPatchesPerSecond int
	// InventoryFiles is the folder of the files that the policy names below [inventory.Mounts].
	InventoryFiles string
	// Dynamic reads NodeFeature objects; nil: none are read.
	Dynamic dynamic.Interface
}

// Controller reconciles each Node that was observed, and each Node whose record changed. While it does not lead, it leaves that to the
// leader; see holds.go.
type Controller struct {
	Options

	informer            cache.SharedIndexInformer
	handlerRegistration cache.ResourceEventHandlerRegistration
	observations        *observations
	notes               store.ConfigMapNotes
	fights              *pace.Fights
	refusals            *pace.Refusals
	notices             *pace.Notices
	coalescer           *pace.Coalescer // of records
	boots               *pace.Coalescer // of boots that are noted
	standby             *pace.Standby
	rollout             *rollout.Rollout
	rulesHeld           func(policy.Policy) bool // whether the rules of a policy must only add labels
	brake               *brake.Brake
	devices             *publishedFacts[classify.UsedDrivers, observe.Devices]
	features            *publishedFacts[classify.UsedFeatures, observe.Features]
	inventories         *inventories.Sources
	ruleChangeLimiter   *pace.RuleChangeLimiter
	compliance          *fleet.Compliance
	queue               workqueue.TypedRateLimitingInterface[string]
	nodeLocks           keymutex.KeyMutex // a lock for each Node's name: the queue keeps two workers apart, but not a worker and a sweep
	followMu            sync.Mutex        // held while the first record of a Node is written that takes over the record of another name
	leading             atomic.Bool
	shuttingDown        atomic.Bool // see [Controller.drain]
}

// How long a Node that could not be reconciled waits before the next try.
const (
	retryBaseDelay = 50 * time.Millisecond
	retryMaxDelay  = 30 * time.Second
)

// LeaseName is the Lease that says which capture leads, in the release namespace.
const LeaseName = "nodekeep-capture"

// nodeLockCount is how many locks the names of Nodes share. A Node waits for another one only if that happens to have the same.
const nodeLockCount = 1024

// reconcileTimeout is how long one reconcile of a Node may take. A call that is never answered must not keep a worker for ever.
const reconcileTimeout = 30 * time.Second

// New makes a controller; it does nothing until [Controller.Run].
func New(options Options) (*Controller, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.ClusterUID == nil {
		options.ClusterUID = func() string { return "" }
	}
	c := newController(options, workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryBaseDelay, retryMaxDelay)))
	c.observations.setCountedKeys(c.Policy().Governance().Settings().Keys)
	var err error
	if c.informer, err = newNodeInformer(options.Client, func() policy.Annotations { return options.Policy().Annotations() }); err != nil {
		return nil, err
	}
	c.handlerRegistration, err = addNodeHandlers(c.informer, c.observations, c.queue.Add, func(node string, err error) { c.reportPanic("receive node", node, err) })
	if err != nil {
		return nil, err
	}
	options.Metrics.registerController(c)
	return c, nil
}

// newController returns a controller that observes nothing yet.
func newController(options Options, queue workqueue.TypedRateLimitingInterface[string]) *Controller {
	if options.PolicySource == nil {
		options.PolicySource = noPolicySource{}
	}
	c := &Controller{
		Options: options, queue: queue, nodeLocks: keymutex.NewHashed(nodeLockCount),
		notes:  store.ConfigMapNotes{Client: options.Client, Namespace: options.Namespace, FieldManager: observe.FieldManager},
		fights: pace.NewFights(pace.LongestPause), refusals: pace.NewRefusals(), notices: pace.NewNotices(), coalescer: pace.NewCoalescer(pace.RecordInterval), boots: pace.NewCoalescer(pace.BootInterval), standby: pace.NewStandby(),
		devices: newPublishedFacts(deviceResource()), features: newPublishedFacts(featureResource()), ruleChangeLimiter: pace.NewRuleChangeLimiter(options.LabelPatchesPerSecond), compliance: fleet.NewCompliance(func() governance.Rules { return options.Policy().Governance() }),
	}
	c.inventories, c.rollout, c.brake = c.newInventories(), c.newRollout(), c.newBrake()
	c.rulesHeld = c.rollout.Holds
	hasGate := func(taints []corev1.Taint) bool { return c.Policy().Gate().Present(taints) }
	c.observations = newObservations(hasGate, func(delay time.Duration) {
		if c.leading.Load() { // of all processes only one measures, so that sums are right
			c.Metrics.gatedSeconds.Observe(delay.Seconds())
		}
	}, options.Now)
	c.observations.sameRuleFacts = func(a, b *observe.CompactNode) bool { return a.SameRuleFacts(b, c.Policy().LabelRules()) }
	return c
}

// Enqueue queues a Node for reconciliation. It must be called after every change of the Node's record, by which a standby sees that another replica works.
func (c *Controller) Enqueue(name string) {
	c.standby.RecordChanged(name, func() string {
		entry, _ := c.Records.Get(name) // the error does not matter: the version is empty without a record, and an unreadable record has one
		return entry.Version
	}, c.Now())
	c.queue.Add(name)
}

// NoteRecordVanished notes that a client removed the record of a Node, or put an older one in its place. While the Node lives, nodekeep does neither.
// [Controller.Enqueue] must be called after it.
func (c *Controller) NoteRecordVanished(name string) { c.observations.noteVanished(name) }

// EnqueueAll queues every Node, for a change of the policy. It also tries again what the API server refused or another client undid.
func (c *Controller) EnqueueAll() {
	c.refusals.Clear()
	c.notices.Clear()
	c.fights.Clear()
	c.observations.setCountedKeys(c.Policy().Governance().Settings().Keys)
	c.rollout.Trigger()
	signal(c.devices.newPolicy)
	signal(c.features.newPolicy)
	c.inventories.Trigger()
	c.enqueueAll()
}

// signal wakes the reader of a channel that holds one value.
func signal(reader chan struct{}) {
	select {
	case reader <- struct{}{}:
	default: // it is about to wake up
	}
}

func (c *Controller) enqueueAll() {
	for _, name := range slices.Concat(c.observations.names(), c.Records.NodeNames()) {
		c.queue.Add(name)
	}
}

// Synced reports whether every Node that existed at the start has been seen.
func (c *Controller) Synced() bool { return c.handlerRegistration.HasSynced() }

// LiveNodes counts the Nodes that exist.
func (c *Controller) LiveNodes() int {
	live, _, _ := c.observations.counts()
	return live
}

// Leading reports whether the controller leads.
func (c *Controller) Leading() bool { return c.leading.Load() }

// Tracks reports whether a Node lives or waits to be reconciled, as far as the watch has shown.
func (c *Controller) Tracks(name string) bool { return c.observations.tracks(name) }

// LockNode waits until no worker works on a Node, and keeps it so until release is called.
func (c *Controller) LockNode(name string) (release func()) {
	c.nodeLocks.LockKey(name)
	return func() { _ = c.nodeLocks.UnlockKey(name) } // it has no error to return
}

// Lead lets the controller act at once, from now on until the process ends.
func (c *Controller) Lead() {
	c.leading.Store(true)
	c.rollout.Trigger()
	c.inventories.Trigger()
	c.enqueueAll()
	if err := c.PolicySource.Err(); err != nil {
		c.ReportPolicy(err) // there was no leader to say it, or it has ended since
	}
}

// Run watches Nodes and works until ctx is done, and then for [drainTimeout] at most. It decides nothing before recordsSynced reports that the
// records are in memory.
func (c *Controller) Run(ctx context.Context, recordsSynced func() bool) error {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	defer done.Wait()
	defer c.queue.ShutDown()
	defer stop()
	done.Go(func() { c.informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), c.Synced, recordsSynced) {
		return nil // stopped before the start was complete
	}
	c.Guard.Check(ctx) // before the first decision
	c.rollout.Check(ctx)
	done.Go(func() { c.rollout.Run(ctx) })
	done.Go(func() { c.devices.watchObjects(ctx, c) })
	if c.Dynamic != nil {
		done.Go(func() { c.features.watchObjects(ctx, c) })
	}
	done.Go(func() { c.inventories.Run(ctx) })
	done.Go(func() { c.Guard.Run(ctx) })
	if c.Resync > 0 { // a safety net: where nothing differs, nothing is written
		round := uint32(0)
		done.Go(func() { wait.UntilWithContext(ctx, func(context.Context) { c.resync(round); round++ }, c.Resync) })
	}
	done.Go(func() { wait.UntilWithContext(ctx, c.enqueueOverdue, standbyInterval) })
	for range c.Workers {
		done.Go(func() { c.work(working) })
	}
	<-ctx.Done()
	c.shuttingDown.Store(true)
	defer time.AfterFunc(drainTimeout, stop).Stop()
	c.drain(working)
	return nil
}

// standbyInterval is how often a replica that does not lead looks for what is overdue.
const standbyInterval = 250 * time.Millisecond

// enqueueOverdue has what is overdue worked on.
func (c *Controller) enqueueOverdue(context.Context) {
	for _, node := range c.standby.TakeOverdue(c.Now()) {
		c.queue.Add(node)
	}
}

func (c *Controller) work(ctx context.Context) {
	for {
		key, shutdown := c.queue.Get()
		switch {
		case shutdown:
			return
		case c.shuttingDown.Load():
			c.queue.Done(key)
			continue
		}
		if err := c.reconcileOne(ctx, key); err != nil && ctx.Err() == nil {
			c.Logger.Warn("node is tried again", "node", key, "error", err, "try", c.queue.NumRequeues(key)+1)
			c.Metrics.errors.WithLabelValues(failure).Inc()
			c.queue.AddRateLimited(key)
		} else {
			c.queue.Forget(key)
		}
		c.queue.Done(key)
	}
}

// reconcileOne works on one name, and notes for the metrics how that left it.
func (c *Controller) reconcileOne(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	defer c.LockNode(name)()
	c.observations.start(name)
	var used resyncInputs
	done := false
	err := c.CallRecovering("reconcile node", name, func() (err error) {
		used = c.resyncInputsOf(name) // before the work: what changes meanwhile counts as changed
		done, err = c.reconcile(ctx, name)
		return err
	})
	c.observations.finish(name, done, used)
	return err
}

// CallRecovering does the work on one object. A panic in it is logged and counted, and is an error like any other. It ends neither the process
// nor the work on other objects.
func (c *Controller) CallRecovering(work, node string, fn func() error) error {
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
