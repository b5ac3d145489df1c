package capture

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/policy"
)

// How long capture waits before it tries again to read objects that are not served, or not allowed.
const (
	publishedRetryBaseDelay = 500 * time.Millisecond
	publishedRetryMaxDelay  = time.Minute
)

// usage is what rules use of objects of a kind.
type usage[U any] interface {
	Equal(o U) bool
	Empty() bool
}

// publication is a cached object, stripped to what rules use.
type publication interface {
	Node() string // empty: rules do not use it
}

// factResource is a resource of the API in whose objects agents publish facts (F) of Nodes.
type factResource[U usage[U], F comparable] struct {
	description string // as errors name it
	optional    bool   // the API server may not serve it (an add-on that is not installed), which is no error
	usageOf     func(classify.Rules) U
	listWatch   func(c *Controller, usage U) cache.ListerWatcher
	object      runtime.Object
	strip       func(object any, usage U) publication // nil: it is another object
	// unreadable is what [factResource.strip] makes of an object when reading it panics.
	unreadable func(object any) publication
	facts      func(objects []any) F
	report     func(c *Controller, err error)
}

// publishedFacts are the facts of all Nodes that objects of a kind have, while rules use them.
type publishedFacts[U usage[U], F comparable] struct {
	factResource[U, F]
	newPolicy chan struct{} // holds one value after a change of the policy

	mu        sync.Mutex
	readFor   *U // the usage for which all objects were read; nil: not read yet
	notServed bool
	byNode    map[string]F

	logged, reported string // why the objects cannot be read
}

func newPublishedFacts[U usage[U], F comparable](resource factResource[U, F]) *publishedFacts[U, F] {
	return &publishedFacts[U, F]{factResource: resource, newPolicy: make(chan struct{}, 1), byNode: map[string]F{}}
}

// hasRead reports whether all objects were read for what rules use.
func (pf *publishedFacts[U, F]) hasRead(usage U) bool {
	return pf.readFor != nil && (*pf.readFor).Equal(usage)
}

// factsOf returns the facts of a Node, if rules use any and all objects were read. The zero value is not known.
func (pf *publishedFacts[U, F]) factsOf(node string, p policy.Policy) (facts F) {
	usage := pf.usageOf(p.LabelRules())
	if usage.Empty() {
		return facts
	}
	pf.mu.Lock()
	defer pf.mu.Unlock()
	if !pf.hasRead(usage) {
		return facts
	}
	if f, listed := pf.byNode[node]; listed {
		return f
	}
	return pf.facts(nil)
}

// factsByNode returns the facts of each Node as far as the rules of a policy look at them.
func (pf *publishedFacts[U, F]) factsByNode(p policy.Policy) func(node string) F {
	return func(node string) F { return pf.factsOf(node, p) }
}

// known reports whether what rules use was read; it is if they use none.
func (pf *publishedFacts[U, F]) known(p policy.Policy) bool {
	usage := pf.usageOf(p.LabelRules())
	pf.mu.Lock()
	defer pf.mu.Unlock()
	return usage.Empty() || pf.hasRead(usage)
}

// rulesJudgeable reports whether the effect of new rules can be counted: what they use was read, or the API server does not serve it.
func (pf *publishedFacts[U, F]) rulesJudgeable(p policy.Policy) bool {
	if pf.known(p) {
		return true
	}
	pf.mu.Lock()
	defer pf.mu.Unlock()
	return pf.optional && pf.notServed
}

// set notes the objects of a Node, and reports whether that changed what is known of it.
func (pf *publishedFacts[U, F]) set(node string, objects []any) (changed bool) {
	facts := pf.facts(objects)
	pf.mu.Lock()
	defer pf.mu.Unlock()
	prev, existed := pf.byNode[node]
	if len(objects) == 0 {
		delete(pf.byNode, node)
		return existed && pf.readFor != nil
	}
	pf.byNode[node] = facts
	return (!existed || prev != facts) && pf.readFor != nil
}

// setRead notes that all objects were read for what rules use.
func (pf *publishedFacts[U, F]) setRead(usage U) {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	pf.readFor, pf.notServed, pf.logged, pf.reported = &usage, false, "", ""
}

// forget notes that nothing is known.
func (pf *publishedFacts[U, F]) forget() {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	pf.readFor, pf.byNode = nil, map[string]F{}
}

// shouldReport reports whether to log a problem, and whether to send an Event about it. Only the leader sends Events.
func (pf *publishedFacts[U, F]) shouldReport(problem error, leading bool) (log, event bool) {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	log, event = pf.logged != problem.Error(), leading && pf.reported != problem.Error()
	pf.logged = problem.Error()
	if event {
		pf.reported = problem.Error()
	}
	return log, event
}

// watchObjects reads the objects while rules of the policy use them, until ctx is done.
func (pf *publishedFacts[U, F]) watchObjects(ctx context.Context, c *Controller) {
	retry := publishedRetryBaseDelay
	for ctx.Err() == nil {
		wait := time.Duration(0) // for the next policy
		if usage := pf.usageOf(c.Policy().LabelRules()); !usage.Empty() {
			start := time.Now()
			err := c.CallRecovering("read "+pf.description, "", func() error { return pf.watchWhileUsed(ctx, c, usage) })
			if err == nil {
				continue // the rules use others, or ctx is done
			}
			if notServed := apierrors.IsNotFound(err); pf.setNotServed(notServed) && pf.optional {
				c.rollout.Trigger()
			}
			pf.report(c, err)
			if time.Since(start) > publishedRetryMaxDelay {
				retry = publishedRetryBaseDelay
			}
			wait, retry = retry, min(2*retry, publishedRetryMaxDelay)
		}
		pf.awaitPolicy(ctx, wait)
	}
}

// setNotServed notes whether the API server serves the objects, and reports whether that is new.
func (pf *publishedFacts[U, F]) setNotServed(notServed bool) (changed bool) {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	changed, pf.notServed = pf.notServed != notServed, notServed
	return changed
}

// awaitPolicy waits for a change of the policy, and no longer than a time if there is one.
func (pf *publishedFacts[U, F]) awaitPolicy(ctx context.Context, atMost time.Duration) {
	var timeout <-chan time.Time
	if atMost > 0 {
		timer := time.NewTimer(atMost)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-ctx.Done():
	case <-timeout:
	case <-pf.newPolicy:
	}
}

// watchWhileUsed watches the objects as long as rules use the same of them. The error says why they cannot be read. An informer that fails to list
// would show old objects until it lists again. So each try has an informer of its own.
func (pf *publishedFacts[U, F]) watchWhileUsed(ctx context.Context, c *Controller, usage U) error {
	defer pf.forget()
	var running sync.WaitGroup
	defer running.Wait()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	informer, registration, err := pf.newInformer(c, usage, end)
	if err != nil {
		return err
	}
	running.Go(func() { informer.RunWithContext(ctx) })
	running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			pf.setRead(usage)
			c.Logger.Info("rules use published objects, which were read", "resource", pf.description, "objects", len(informer.GetStore().ListKeys()))
			c.rollout.Trigger()
			c.enqueueAll()
		}
	})
	for pf.usageOf(c.Policy().LabelRules()).Equal(usage) {
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); !apierrors.IsNotFound(cause) && !isDenied(cause) {
				return nil
			}
			return fmt.Errorf("read %s: %w", pf.description, context.Cause(ctx))
		case <-pf.newPolicy:
		}
	}
	return nil
}

func isDenied(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// nodeIndex is the index of objects by the Node that they are about.
const nodeIndex = "node"

// newInformer watches the objects, and holds only what rules use. If they are not served or must not be read, it calls failed. The informer
// itself retries after other failures. Until then, the objects that were last read count.
func (pf *publishedFacts[U, F]) newInformer(c *Controller, usage U, failed func(error)) (cache.SharedIndexInformer, cache.ResourceEventHandlerRegistration, error) {
	informer := cache.NewSharedIndexInformer(pf.listWatch(c, usage), pf.object, 0, cache.Indexers{nodeIndex: func(object any) ([]string, error) {
		if pub, ok := object.(publication); ok && pub.Node() != "" {
			return []string{pub.Node()}, nil
		}
		return nil, nil
	}})
	if err := informer.SetTransform(func(object any) (any, error) { return pf.stripped(c, object, usage), nil }); err != nil {
		return nil, nil, fmt.Errorf("watch %s: %w", pf.description, err)
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) || isDenied(err) {
			failed(err)
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}); err != nil {
		return nil, nil, fmt.Errorf("watch %s: %w", pf.description, err)
	}
	changed := func(object any) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		pub, ok := object.(publication)
		if !ok || pub.Node() == "" {
			return
		}
		if listed, err := informer.GetIndexer().ByIndex(nodeIndex, pub.Node()); err == nil && pf.set(pub.Node(), listed) && c.observations.tracks(pub.Node()) {
			c.queue.Add(pub.Node())
		}
	}
	registration, err := informer.AddEventHandler(contain.Handlers(cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(oldObject, newObject any) { changed(oldObject); changed(newObject) }, // the update may have moved the object to another Node
		DeleteFunc: changed,
	}, func(_ any, err error) { c.reportPanic("receive an object of "+pf.description, "", err) }))
	if err != nil {
		return nil, nil, fmt.Errorf("watch %s: %w", pf.description, err)
	}
	return informer, registration, nil
}

// stripped returns what rules use of an object. It never panics: that would end the process.
func (pf *publishedFacts[U, F]) stripped(c *Controller, object any, usage U) (result any) {
	result = object
	err := contain.Call(func() error {
		if pub := pf.strip(object, usage); pub != nil {
			result = pub
		}
		return nil
	})
	if err != nil {
		c.reportPanic("receive an object of "+pf.description, "", err)
		return pf.unreadable(object)
	}
	return result
}

// castAll returns objects of an informer.
func castAll[T any](objects []any) []T {
	all := make([]T, 0, len(objects))
	for _, object := range objects {
		all = append(all, object.(T))
	}
	return all
}
