package capture

import (
	"context"
	"fmt"
	"sync"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// How long capture waits before it tries again to read ResourceSlices that are not served, or not allowed.
const (
	firstDevicesRetry = 500 * time.Millisecond
	lastDevicesRetry  = time.Minute
)

// devices are those of all Nodes, while rules use them.
type devices struct {
	newPolicy chan struct{} // holds one value after a change of the policy

	mu      sync.Mutex
	drivers classify.Drivers // those whose slices were read; nil: the slices were not read
	byNode  map[string]observe.Devices

	logged, reported string // why slices cannot be read
}

func newDevices() *devices {
	return &devices{newPolicy: make(chan struct{}, 1), byNode: map[string]observe.Devices{}}
}

// of are the devices of a Node, if rules use any and all slices were read.
func (d *devices) of(node string, drivers classify.Drivers) observe.Devices {
	if len(drivers) == 0 {
		return observe.Devices{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.drivers.Same(drivers) {
		return observe.Devices{}
	}
	if of, listed := d.byNode[node]; listed {
		return of
	}
	return observe.DevicesOf(nil)
}

// under are the devices of each Node as far as the rules of a policy look at them.
func (d *devices) under(p policy.Policy) func(node string) observe.Devices {
	return func(node string) observe.Devices { return d.of(node, p.LabelRules().Drivers()) }
}

// known reports whether what rules use was read; it is if they use none.
func (d *devices) known(drivers classify.Drivers) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(drivers) == 0 || d.drivers.Same(drivers)
}

// set notes the devices of a Node, and reports whether that changed what is known of it.
func (d *devices) set(node string, slices []any) (changed bool) {
	listed := make([]*observe.Slice, 0, len(slices))
	for _, slice := range slices {
		listed = append(listed, slice.(*observe.Slice))
	}
	is := observe.DevicesOf(listed)
	d.mu.Lock()
	defer d.mu.Unlock()
	was, before := d.byNode[node]
	if len(listed) == 0 {
		delete(d.byNode, node)
		return before && d.drivers != nil
	}
	d.byNode[node] = is
	return (!before || was != is) && d.drivers != nil
}

// read notes that all slices of these drivers were read.
func (d *devices) read(drivers classify.Drivers) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drivers, d.logged, d.reported = drivers, "", ""
}

// forget notes that no devices are known.
func (d *devices) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drivers, d.byNode = nil, map[string]observe.Devices{}
}

// news reports whether to log a problem, and whether to send an Event about it. Only the leader sends Events.
func (d *devices) news(problem string, leading bool) (log, event bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	log, event = d.logged != problem, leading && d.reported != problem
	d.logged = problem
	if event {
		d.reported = problem
	}
	return log, event
}

// followDevices reads ResourceSlices while rules of the policy look at devices, until ctx is done.
func (c *Controller) followDevices(ctx context.Context) {
	retry := firstDevicesRetry
	for ctx.Err() == nil {
		wait := time.Duration(0) // for the next policy
		if drivers := c.Policy().LabelRules().Drivers(); len(drivers) > 0 {
			was := time.Now()
			err := c.Contained("read devices", "", func() error { return c.readDevices(ctx, drivers) })
			if err == nil {
				continue // the rules use others, or ctx is done
			}
			c.reportDevices(err)
			if time.Since(was) > lastDevicesRetry {
				retry = firstDevicesRetry
			}
			wait, retry = retry, min(2*retry, lastDevicesRetry)
		}
		c.awaitPolicy(ctx, wait)
	}
}

// awaitPolicy waits for a change of the policy, and no longer than a time if there is one.
func (c *Controller) awaitPolicy(ctx context.Context, atMost time.Duration) {
	var timeout <-chan time.Time
	if atMost > 0 {
		timer := time.NewTimer(atMost)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-ctx.Done():
	case <-timeout:
	case <-c.devices.newPolicy:
	}
}

// readDevices watches ResourceSlices as long as rules use the same drivers. The error says why they cannot be read. An informer that fails
// to list would show old slices until it lists again. So each try has an informer of its own.
func (c *Controller) readDevices(ctx context.Context, drivers classify.Drivers) error {
	defer c.devices.forget()
	var running sync.WaitGroup
	defer running.Wait()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	informer, registration, err := c.newSliceInformer(drivers, end)
	if err != nil {
		return err
	}
	running.Go(func() { informer.RunWithContext(ctx) })
	running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			c.devices.read(drivers)
			c.Logger.Info("rules look at devices; the resource slices were read", "slices", len(informer.GetStore().ListKeys()))
			c.lookAtRules()
			c.enqueueAll()
		}
	})
	for c.Policy().LabelRules().Drivers().Same(drivers) {
		select {
		case <-ctx.Done():
			if why := context.Cause(ctx); !apierrors.IsNotFound(why) && !isDenied(why) {
				return nil
			}
			return fmt.Errorf("read resourceslices of resource.k8s.io/v1: %w", context.Cause(ctx))
		case <-c.devices.newPolicy:
		}
	}
	return nil
}

func isDenied(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// byNode is the index of slices by the Node that their devices belong to.
const byNode = "node"

// newSliceInformer watches ResourceSlices, and holds only what rules use. If they are not served or must not be read, it calls failed. The
// informer itself retries after other failures. Until then, the slices that were last read count.
func (c *Controller) newSliceInformer(drivers classify.Drivers, failed func(error)) (cache.SharedIndexInformer, cache.ResourceEventHandlerRegistration, error) {
	slices := store.ListWatch(c.Client, c.Client.ResourceV1().ResourceSlices(), "", nil)
	informer := cache.NewSharedIndexInformer(slices, &resourcev1.ResourceSlice{}, 0, cache.Indexers{byNode: func(object any) ([]string, error) {
		if slice, ok := object.(*observe.Slice); ok && slice.Node() != "" {
			return []string{slice.Node()}, nil
		}
		return nil, nil
	}})
	if err := informer.SetTransform(func(object any) (any, error) {
		if slice, ok := object.(*resourcev1.ResourceSlice); ok {
			return c.slimSlice(observe.SliceOf, slice, drivers), nil
		}
		return object, nil
	}); err != nil {
		return nil, nil, fmt.Errorf("watch resource slices: %w", err)
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) || isDenied(err) {
			failed(err)
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}); err != nil {
		return nil, nil, fmt.Errorf("watch resource slices: %w", err)
	}
	changed := func(object any) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		slice, ok := object.(*observe.Slice)
		if !ok || slice.Node() == "" {
			return
		}
		if listed, err := informer.GetIndexer().ByIndex(byNode, slice.Node()); err == nil && c.devices.set(slice.Node(), listed) && c.observations.knows(slice.Node()) {
			c.queue.Add(slice.Node())
		}
	}
	registration, err := informer.AddEventHandler(contain.Handlers(cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(before, after any) { changed(before); changed(after) }, // deleted and created again for another Node
		DeleteFunc: changed,
	}, func(_ any, err error) { c.reportPanic("receive resource slice", "", err) }))
	if err != nil {
		return nil, nil, fmt.Errorf("watch resource slices: %w", err)
	}
	return informer, registration, nil
}

// slimSlice never panics: that would end the process.
func (c *Controller) slimSlice(read func(*resourcev1.ResourceSlice, classify.Drivers) *observe.Slice, slice *resourcev1.ResourceSlice, drivers classify.Drivers) (slim *observe.Slice) {
	err := contain.Call(func() error { slim = read(slice, drivers); return nil })
	if err != nil {
		c.reportPanic("receive resource slice", "", err)
		return observe.UnreadableSlice(slice)
	}
	return slim
}
