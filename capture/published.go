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
	firstPublishedRetry = 500 * time.Millisecond
	lastPublishedRetry  = time.Minute
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

// kind is a kind of objects in which agents publish facts (F) of Nodes.
type kind[U usage[U], F comparable] struct {
	resource string // as errors name it
	optional bool   // the API server may not serve it (an add-on that is not installed), which is no error
	uses     func(classify.Rules) U
	watch    func(c *Controller, uses U) cache.ListerWatcher
	object   runtime.Object
	slim     func(object any, uses U) publication // nil: it is another object
	// unreadable is what [kind.slim] makes of an object when reading it panics.
	unreadable func(object any) publication
	facts      func(objects []any) F
	report     func(c *Controller, err error)
}

// published are the facts of all Nodes that objects of a kind have, while rules use them.
type published[U usage[U], F comparable] struct {
	kind[U, F]
	newPolicy chan struct{} // holds one value after a change of the policy

	mu      sync.Mutex
	read    *U // the usage for which all objects were read; nil: not read yet
	missing bool
	byNode  map[string]F

	logged, reported string // why the objects cannot be read
}

func newPublished[U usage[U], F comparable](k kind[U, F]) *published[U, F] {
	return &published[U, F]{kind: k, newPolicy: make(chan struct{}, 1), byNode: map[string]F{}}
}

// hasRead reports whether all objects were read for what rules use.
func (d *published[U, F]) hasRead(uses U) bool { return d.read != nil && (*d.read).Equal(uses) }

// factsOf returns the facts of a Node, if rules use any and all objects were read. The zero value is not known.
func (d *published[U, F]) factsOf(node string, p policy.Policy) (facts F) {
	uses := d.uses(p.LabelRules())
	if uses.Empty() {
		return facts
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.hasRead(uses) {
		return facts
	}
	if f, listed := d.byNode[node]; listed {
		return f
	}
	return d.facts(nil)
}

// factsByNode returns the facts of each Node as far as the rules of a policy look at them.
func (d *published[U, F]) factsByNode(p policy.Policy) func(node string) F {
	return func(node string) F { return d.factsOf(node, p) }
}

// known reports whether what rules use was read; it is if they use none.
func (d *published[U, F]) known(p policy.Policy) bool {
	uses := d.uses(p.LabelRules())
	d.mu.Lock()
	defer d.mu.Unlock()
	return uses.Empty() || d.hasRead(uses)
}

// judgeable reports whether the effect of new rules can be counted: what they use was read, or the API server does not serve it.
func (d *published[U, F]) judgeable(p policy.Policy) bool {
	if d.known(p) {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.optional && d.missing
}

// set notes the objects of a Node, and reports whether that changed what is known of it.
func (d *published[U, F]) set(node string, objects []any) (changed bool) {
	facts := d.facts(objects)
	d.mu.Lock()
	defer d.mu.Unlock()
	prev, existed := d.byNode[node]
	if len(objects) == 0 {
		delete(d.byNode, node)
		return existed && d.read != nil
	}
	d.byNode[node] = facts
	return (!existed || prev != facts) && d.read != nil
}

// allRead notes that all objects were read for what rules use.
func (d *published[U, F]) allRead(uses U) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read, d.missing, d.logged, d.reported = &uses, false, "", ""
}

// forget notes that nothing is known.
func (d *published[U, F]) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read, d.byNode = nil, map[string]F{}
}

// shouldReport reports whether to log a problem, and whether to send an Event about it. Only the leader sends Events.
func (d *published[U, F]) shouldReport(problem error, leading bool) (log, event bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	log, event = d.logged != problem.Error(), leading && d.reported != problem.Error()
	d.logged = problem.Error()
	if event {
		d.reported = problem.Error()
	}
	return log, event
}

// watchObjects reads the objects while rules of the policy use them, until ctx is done.
func (d *published[U, F]) watchObjects(ctx context.Context, c *Controller) {
	retry := firstPublishedRetry
	for ctx.Err() == nil {
		wait := time.Duration(0) // for the next policy
		if uses := d.uses(c.Policy().LabelRules()); !uses.Empty() {
			start := time.Now()
			err := c.Contained("read "+d.resource, "", func() error { return d.readAll(ctx, c, uses) })
			if err == nil {
				continue // the rules use others, or ctx is done
			}
			if missing := apierrors.IsNotFound(err); d.setMissing(missing) && d.optional {
				c.rollout.Trigger()
			}
			d.report(c, err)
			if time.Since(start) > lastPublishedRetry {
				retry = firstPublishedRetry
			}
			wait, retry = retry, min(2*retry, lastPublishedRetry)
		}
		d.awaitPolicy(ctx, wait)
	}
}

// setMissing notes whether the API server serves the objects, and reports whether that is new.
func (d *published[U, F]) setMissing(missing bool) (changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed, d.missing = d.missing != missing, missing
	return changed
}

// awaitPolicy waits for a change of the policy, and no longer than a time if there is one.
func (d *published[U, F]) awaitPolicy(ctx context.Context, atMost time.Duration) {
	var timeout <-chan time.Time
	if atMost > 0 {
		timer := time.NewTimer(atMost)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-ctx.Done():
	case <-timeout:
	case <-d.newPolicy:
	}
}

// readAll watches the objects as long as rules use the same of them. The error says why they cannot be read. An informer that fails to list
// would show old objects until it lists again. So each try has an informer of its own.
func (d *published[U, F]) readAll(ctx context.Context, c *Controller, uses U) error {
	defer d.forget()
	var running sync.WaitGroup
	defer running.Wait()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	informer, registration, err := d.newInformer(c, uses, end)
	if err != nil {
		return err
	}
	running.Go(func() { informer.RunWithContext(ctx) })
	running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			d.allRead(uses)
			c.Logger.Info("rules use published objects, which were read", "resource", d.resource, "objects", len(informer.GetStore().ListKeys()))
			c.rollout.Trigger()
			c.enqueueAll()
		}
	})
	for d.uses(c.Policy().LabelRules()).Equal(uses) {
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); !apierrors.IsNotFound(cause) && !isDenied(cause) {
				return nil
			}
			return fmt.Errorf("read %s: %w", d.resource, context.Cause(ctx))
		case <-d.newPolicy:
		}
	}
	return nil
}

func isDenied(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// byNode is the index of objects by the Node that they are about.
const byNode = "node"

// newInformer watches the objects, and holds only what rules use. If they are not served or must not be read, it calls failed. The informer
// itself retries after other failures. Until then, the objects that were last read count.
func (d *published[U, F]) newInformer(c *Controller, uses U, failed func(error)) (cache.SharedIndexInformer, cache.ResourceEventHandlerRegistration, error) {
	informer := cache.NewSharedIndexInformer(d.watch(c, uses), d.object, 0, cache.Indexers{byNode: func(object any) ([]string, error) {
		if published, ok := object.(publication); ok && published.Node() != "" {
			return []string{published.Node()}, nil
		}
		return nil, nil
	}})
	if err := informer.SetTransform(func(object any) (any, error) { return d.slimmed(c, object, uses), nil }); err != nil {
		return nil, nil, fmt.Errorf("watch %s: %w", d.resource, err)
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) || isDenied(err) {
			failed(err)
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}); err != nil {
		return nil, nil, fmt.Errorf("watch %s: %w", d.resource, err)
	}
	changed := func(object any) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		published, ok := object.(publication)
		if !ok || published.Node() == "" {
			return
		}
		if listed, err := informer.GetIndexer().ByIndex(byNode, published.Node()); err == nil && d.set(published.Node(), listed) && c.observations.knows(published.Node()) {
			c.queue.Add(published.Node())
		}
	}
	registration, err := informer.AddEventHandler(contain.Handlers(cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(oldObject, newObject any) { changed(oldObject); changed(newObject) }, // the update may have moved the object to another Node
		DeleteFunc: changed,
	}, func(_ any, err error) { c.reportPanic("receive an object of "+d.resource, "", err) }))
	if err != nil {
		return nil, nil, fmt.Errorf("watch %s: %w", d.resource, err)
	}
	return informer, registration, nil
}

// slimmed returns what rules use of an object. It never panics: that would end the process.
func (d *published[U, F]) slimmed(c *Controller, object any, uses U) (slim any) {
	slim = object
	err := contain.Call(func() error {
		if published := d.slim(object, uses); published != nil {
			slim = published
		}
		return nil
	})
	if err != nil {
		c.reportPanic("receive an object of "+d.resource, "", err)
		return d.unreadable(object)
	}
	return slim
}

// castAll returns objects of an informer.
func castAll[T any](objects []any) []T {
	all := make([]T, 0, len(objects))
	for _, object := range objects {
		all = append(all, object.(T))
	}
	return all
}
