//go:build oldcore

package capture

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// simCapture is one process of capture: the real Controller between a watch of Nodes and a cache of records that lag, and
// an API that is interrupted at every call.
type simCapture struct {
	*world
	id         int
	controller *Controller
	queue      *simQueue
	dead       bool
	busy       bool

	// The watch of Nodes.
	handler  cache.ResourceEventHandler
	position int // in the world's log
	held     map[string]*simNode

	// The records in memory.
	heard map[string]int // how much of each record's history the watch has brought
	own   map[string]int // writes of its own that the watch has not brought yet; the same measure

	told map[types.UID]*tale
}

// tale is what this process was told of an object.
type tale struct {
	node    string
	version int
	ended   bool // that it went, too
	late    bool // the record had moved on to a later object by then, or somebody else moved it on since
}

// crashed is the end of a process in the middle of its work.
type crashed struct{ *simCapture }

// start starts a process; what it lists at first may be a little old.
func (w *world) start() {
	w.processes++
	c := &simCapture{
		world: w, id: w.processes,
		held: map[string]*simNode{}, heard: map[string]int{}, own: map[string]int{}, told: map[types.UID]*tale{},
	}
	c.queue = &simQueue{capture: c, ready: map[string]bool{}, later: map[string]bool{}}
	c.controller = &Controller{
		Options: Options{
			Client: simClient{capture: c}, Records: c, Policy: func() policy.Policy { return w.policy },
			Events: &record.FakeRecorder{}, Guards: w.guards(), Metrics: NewMetrics(prometheus.NewRegistry()),
			Logger: slog.New(slog.DiscardHandler), Now: w.now, Sweep: c.sweeping(),
		},
		refusals: newRefusals(), reported: newReported(), brake: newBrake(0), coalescer: newCoalescer(0), queue: c.queue,
	}
	if w.story.waits {
		c.controller.brake, c.controller.coalescer = newBrake(simPause), newCoalescer(simPause)
	}
	c.controller.sightings = newSightings(c.controller.gated, c.controller.liftedAfter, c.controller.Now)
	_, _ = feed(&handlerHolder{held: &c.handler}, c.controller.sightings, c.queue.Add, func(_ string, err error) { panic(err) })

	c.position = len(w.log) - w.lag(len(w.log)-w.known) // never older than what an earlier process knew
	for _, event := range w.log[:c.position] {
		if c.held[event.node.name] = event.node; event.gone {
			delete(c.held, event.node.name)
		}
	}
	w.say("capture: %d starts", c.id)
	for _, name := range slices.Sorted(maps.Keys(c.held)) {
		c.hears(c.held[name], false)
		c.handler.OnAdd(slimOf(nodeOf(c.held[name].object())), true)
	}
	for _, name := range w.story.names {
		c.heard[name] = len(w.history[name]) - w.lag(len(w.history[name]))
		if c.heard[name] > 0 {
			c.controller.Enqueue(name)
		}
	}
	w.captures = append(w.captures, c)
}

// guards knows whether the guard policies are in force.
func (w *world) guards() *Guards { return &Guards{inForce: w.story.guards} }

func (c *simCapture) leads() bool { return c.controller.leading.Load() }

func (c *simCapture) die() {
	c.dead = true
	c.captures = slices.DeleteFunc(c.captures, func(other *simCapture) bool { return other == c })
	c.say("capture: %d dies", c.id)
}

// hears notes what the process is told of an object.
func (c *simCapture) hears(n *simNode, ended bool) {
	of := c.told[n.uid]
	if of == nil {
		of = &tale{node: n.name}
		c.told[n.uid] = of
	}
	of.version, of.ended = n.version, ended
	if record, found := c.recordOf(n.name); found && c.movedPast(record, n.uid, of) {
		of.late = true
	}
	c.say("capture: %d is told of %s, gone: %t", c.id, brief(n), ended)
}

// movedPast reports whether the record tells of a later object than this one.
func (w *world) movedPast(record store.Record, object types.UID, of *tale) bool {
	version, err := strconv.Atoi(record.NodeResourceVersion)
	return err == nil && version > of.version && slices.ContainsFunc(w.log, func(event nodeEvent) bool {
		return event.node.version == version && event.node.uid != object
	})
}

// hearNext brings the next event of the watch. States of a living object may be left out.
func (c *simCapture) hearNext() bool {
	if c.position == len(c.log) {
		return false
	}
	event := c.log[c.position]
	c.position++
	c.known = max(c.known, c.position)
	if !event.gone && c.chance(c.story.coalesce) && c.position < len(c.log) && c.log[c.position].node.uid == event.node.uid {
		c.skipped = true
		return true
	}
	before := c.held[event.node.name]
	c.hears(event.node, event.gone)
	current := slimOf(nodeOf(event.node.object()))
	switch {
	case event.gone:
		delete(c.held, event.node.name)
		c.handler.OnDelete(current)
	case before == nil:
		c.held[event.node.name] = event.node
		c.handler.OnAdd(current, false)
	default:
		c.held[event.node.name] = event.node
		c.handler.OnUpdate(slimOf(nodeOf(before.object())), current)
	}
	return true
}

// relist is what an informer does when its watch is lost: it compares what it holds with what there is.
func (c *simCapture) relist() {
	c.say("capture: %d lists Nodes again", c.id)
	c.skipped = c.skipped || c.position < len(c.log)
	c.position = len(c.log)
	c.known = c.position
	for _, name := range c.story.names {
		before, current := c.held[name], c.nodes[name]
		switch {
		case before == nil && current == nil:
			continue
		case current == nil:
			delete(c.held, name)
			c.hears(before, true)
			c.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: name, Obj: slimOf(nodeOf(before.object()))})
			continue
		case before == nil:
			c.hears(current, false)
			c.handler.OnAdd(slimOf(nodeOf(current.object())), false)
		default:
			if before.uid != current.uid {
				c.hears(before, true)
			}
			c.hears(current, false)
			c.handler.OnUpdate(slimOf(nodeOf(before.object())), slimOf(nodeOf(current.object())))
		}
		c.held[name] = current
	}
}

// hearRecord brings news of a record to the process's cache.
func (c *simCapture) hearRecord(name string) bool {
	behind := len(c.history[name]) - c.heard[name]
	if behind == 0 {
		return false
	}
	c.heard[name] += 1 + c.rng.IntN(behind)
	if c.own[name] <= c.heard[name] {
		delete(c.own, name)
	}
	c.say("capture: %d hears of the record of %s", c.id, name)
	c.controller.Enqueue(name)
	return true
}

// work has the process deal with one Node of its queue, if any waits.
func (c *simCapture) work() bool {
	names := slices.Sorted(maps.Keys(c.queue.ready))
	if len(names) == 0 || c.busy {
		return false
	}
	c.queue.next = names[c.rng.IntN(len(names))]
	c.say("capture: %d works on %s, leading: %t", c.id, c.queue.next, c.leads())
	depth, reviewing := c.depth, c.reviewing
	c.busy = true
	defer func() {
		c.busy, c.depth, c.reviewing = false, depth, reviewing
		if why := recover(); why != nil && why != any(crashed{c}) {
			panic(why)
		}
	}()
	c.controller.work(context.Background())
	return true
}

// inMemory is how much of a record's history the process has in memory.
func (c *simCapture) inMemory(name string) int { return max(c.heard[name], c.own[name]) }

// heardUntil is the record at a point of its history, as a cache holds it.
func (w *world) heardUntil(name string, at int) (store.Entry, error) {
	if at == 0 || w.history[name][at-1].Version == "" {
		return store.Entry{}, store.ErrNotFound
	}
	entry := w.history[name][at-1]
	entry.Record = entry.Record.WithoutHistory()
	return entry, nil
}

// Get is the record as the process has it in memory.
func (c *simCapture) Get(name string) (store.Entry, error) {
	return c.heardUntil(name, c.inMemory(name))
}

func (c *simCapture) GetLive(ctx context.Context, name string) (entry store.Entry, err error) {
	err = c.call("read the record of "+name, func() error {
		entry, err = c.records.GetLive(ctx, name)
		return err
	})
	return entry, err
}

func (c *simCapture) Put(ctx context.Context, next store.Record, version string) (entry store.Entry, err error) {
	if next.UID == "" {
		c.fail("capture resets %s, which is right", brief(next))
	}
	err = c.call("write "+brief(next), func() error {
		before, found := c.recordOf(next.Node)
		if entry, err = c.records.Put(ctx, next, version); err != nil {
			return err
		}
		c.wrote(c, before, found, entry)
		return nil
	})
	if err == nil {
		c.own[next.Node] = slices.IndexFunc(c.history[next.Node], func(e store.Entry) bool { return e.Version == entry.Version }) + 1
	}
	return entry, err
}

// wrote notes a write of a record, and whether there was a reason for it.
func (w *world) wrote(by *simCapture, before store.Record, found bool, entry store.Entry) {
	node, next := entry.Record.Node, entry.Record
	w.writes++
	w.putBack(entry)
	w.checkTold(before, found, next)
	w.history[node] = append(w.history[node], entry)
	if found {
		if compareVersions(next.NodeResourceVersion, before.NodeResourceVersion) < 0 {
			w.fail("the record of %s goes back in time", node)
		}
		if before.UID == next.UID && slices.Equal(before.RuleTaints, next.RuleTaints) && maps.Equal(before.Items, next.Items) && maps.Equal(before.Shown(), next.Shown()) && maps.Equal(before.Withheld.Items, next.Withheld.Items) &&
			(before.DeletedAt == nil) == (next.DeletedAt == nil) && before.Machine == next.Machine &&
			maps.EqualFunc(before.Later, next.Later, same) &&
			// How new the last sight was counts at a deletion, and before a rule's taint is put on.
			maps.Equal(before.LaterVersions, next.LaterVersions) &&
			(by != nil && len(next.RuleTaints) == 0 || before.NodeResourceVersion == next.NodeResourceVersion) {
			w.fail("the record of %s is written without a change", node)
		}
	}
	w.goesOn(by, node, func(told types.UID, of *tale) bool {
		return by != nil && w.leaders() > 1 || w.movedPast(next, told, of)
	})
}

// goesOn notes that what other processes know of earlier objects comes too late now. Of two leaders at a time, one may
// undo what the other knew better.
func (w *world) goesOn(by *simCapture, node string, earlier func(types.UID, *tale) bool) {
	for _, other := range w.captures {
		for object, of := range other.told {
			if other != by && of.node == node && earlier(object, of) {
				of.late = true
			}
		}
	}
}

// Nodes are the names that the process has a record of.
func (c *simCapture) Nodes() (names []string) {
	for _, name := range c.story.names {
		if _, err := c.heardUntil(name, c.heard[name]); err == nil {
			names = append(names, name)
		}
	}
	return names
}

var errServer = apierrors.NewInternalError(errors.New("the simulated API server has a bad moment"))

// call is a request to the API server. Other things happen before and after it; the process may end, and the request or
// its answer may get lost.
func (c *simCapture) call(what string, request func() error) error {
	c.meanwhile()
	if !c.calm && c.chance(c.story.errors) {
		c.say("capture: %d fails to %s", c.id, what)
		return errServer
	}
	err := request()
	c.say("capture: %d %s: %v", c.id, what, err)
	if !c.calm && c.chance(c.story.errors) {
		c.say("capture: %d does not get the answer", c.id)
		return errServer
	}
	c.meanwhile()
	return err
}

// meanwhile lets other things happen while the process waits for the API server.
func (c *simCapture) meanwhile() {
	for !c.calm && !c.dead && c.depth < 3 && c.chance(c.story.interleave) {
		c.depth++
		c.step()
		c.depth--
	}
	if !c.calm && !c.dead && c.chance(c.story.crashes) {
		c.die()
	}
	if c.dead {
		panic(crashed{c})
	}
}

// dealt is called when the controller is done with a Node.
func (c *simCapture) dealt(name string, began map[types.UID]tale, led bool) {
	if !led || c.inMemory(name) != len(c.history[name]) {
		return
	}
	for object, of := range began {
		live := c.nodes[name] != nil && c.nodes[name].uid == object
		if (of.ended || live) && !c.told[object].late && !c.mayTurnBack(name, object, of.version, c) {
			c.model.keeps(name, object, of.version)
		}
	}
}

// mayTurnBack reports whether another process is behind and the record does not tell that it is: label changes that were
// taken back meanwhile left no trace in it.
func (w *world) mayTurnBack(node string, object types.UID, version int, not *simCapture) bool {
	if record, found := w.recordOf(node); found && compareVersions(record.NodeResourceVersion, strconv.Itoa(version)) >= 0 {
		return false
	}
	return slices.ContainsFunc(w.captures, func(c *simCapture) bool {
		return c != not && (c.told[object] == nil || c.told[object].version < version)
	})
}

func (c *simCapture) tales(name string) map[types.UID]tale {
	tales := map[types.UID]tale{}
	for object, of := range c.told {
		if of.node == name {
			tales[object] = *of
		}
	}
	return tales
}

// simQueue is a work queue without a clock: what failed waits until somebody says that its time has come.
type simQueue struct {
	workqueue.TypedRateLimitingInterface[string]
	capture      *simCapture
	next         string // what Get hands out, once
	ready, later map[string]bool

	began map[types.UID]tale
	led   bool
	waits bool // it is not dealt with wholly
}

// simPause is the longest pause; every wait is over when the next retry comes.
const simPause = 4 * time.Second

func (q *simQueue) Add(name string) { q.ready[name] = true }

func (q *simQueue) Get() (name string, shutdown bool) {
	if q.next == "" {
		return "", true
	}
	name, q.next = q.next, ""
	delete(q.ready, name)
	q.began, q.led, q.waits = q.capture.tales(name), q.capture.leads(), false
	return name, false
}

func (q *simQueue) Forget(name string)     { q.capture.dealt(name, q.began, q.led && !q.waits) }
func (q *simQueue) Done(string)            {}
func (q *simQueue) NumRequeues(string) int { return 0 }
func (q *simQueue) AddRateLimited(name string) {
	q.capture.say("capture: %d could not deal with %s", q.capture.id, name)
	q.later[name] = true
}

func (q *simQueue) AddAfter(name string, wait time.Duration) {
	q.capture.say("capture: %d waits %s before it deals with the rest of %s", q.capture.id, wait, name)
	q.capture.delays++
	q.later[name], q.waits = true, true
}

// retry says that the time of what failed has come.
func (q *simQueue) retry() {
	q.capture.waited += simPause
	maps.Copy(q.ready, q.later)
	clear(q.later)
}

// handlerHolder is as much of an informer as feed needs.
type handlerHolder struct {
	cache.SharedIndexInformer
	held *cache.ResourceEventHandler
}

func (h *handlerHolder) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	*h.held = handler
	return nil, nil
}

// simClient, simCore and simNodes are as much of a client as capture needs.
type (
	simClient struct {
		kubernetes.Interface
		capture *simCapture
	}
	simCore struct {
		typedcorev1.CoreV1Interface
		capture *simCapture
	}
	simNodes struct {
		typedcorev1.NodeInterface
		capture *simCapture
	}
)

func (s simClient) CoreV1() typedcorev1.CoreV1Interface { return simCore{capture: s.capture} }
func (s simCore) Nodes() typedcorev1.NodeInterface      { return simNodes{capture: s.capture} }

func (s simNodes) Get(_ context.Context, name string, _ metav1.GetOptions) (object *corev1.Node, err error) {
	err = s.capture.call("get node "+name, func() error {
		n, found := s.capture.nodes[name]
		if !found {
			return apierrors.NewNotFound(nodesResource, name)
		}
		object = n.object()
		return nil
	})
	return object, err
}

func (s simNodes) Patch(_ context.Context, name string, _ types.PatchType, body []byte, _ metav1.PatchOptions, _ ...string) (object *corev1.Node, err error) {
	err = s.capture.call("patch node "+name+" "+string(body), func() error {
		n, err := s.capture.patchNode(name, body)
		if err != nil {
			return err
		}
		object = n.object()
		s.capture.goesOn(s.capture, name, func(told types.UID, _ *tale) bool { return told != n.uid })
		return nil
	})
	return object, err
}
