package capture_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// process is one process of capture: the real controller between a watch of Nodes and a cache of records that lag, and an API that
// is interrupted at every call.
type process struct {
	*cluster
	*controller
	id     int
	dead   bool
	busy   bool
	policy *policyInUse

	position int              // in the events
	held     map[string]*node // by the informer

	received      map[string]int // how much of each record's history the watch has brought
	pendingWrites map[string]int // writes of its own that the watch has not brought yet; the same measure

	// Of the reconcile that goes on.
	name              string
	hands             []*node // the states that it works on, or has read or made since
	queued            int     // how many of them were in its queue
	wroteRecord       bool
	readRecord        bool // live
	began             int  // in the order of observations
	rememberedAtStart map[string]string
}

// crashed is the end of a process in the middle of its work.
type crashed struct{ *process }

// simPause is the longest pause of capture; every wait is over when the next retry comes.
const simPause = 4 * time.Second

func (w *cluster) captureSteps() []step {
	withAny := func(fn func(*process)) func() {
		return func() {
			if len(w.captures) > 0 {
				fn(w.captures[w.rng.IntN(len(w.captures))])
			}
		}
	}
	return []step{
		{4, "capture starts", func() {
			if len(w.captures) < w.scenario.captures {
				w.start()
			}
		}},
		{2, "capture is killed", withAny((*process).die)},
		{2, "capture ends", withAny((*process).end)},
		{5, "capture leads", withAny(func(c *process) {
			if !c.Leads() && (w.leaders() == 0 || w.scenario.twoLeaders) {
				w.lead(c)
			}
		})},
		{30, "Node event", withAny(func(c *process) { c.receiveNode() })},
		{2, "list", withAny((*process).relist)},
		{10, "record event", withAny(func(c *process) { c.receiveRecord(w.anyName()) })},
		{30, "work", withAny(func(c *process) { c.work() })},
		{3, "retry", withAny((*process).retry)},
		{2, "capture reads the policy", withAny((*process).reload)},
	}
}

// start starts a process; what it lists first may be a little old.
func (w *cluster) start() {
	w.processes++
	c := &process{
		cluster: w, id: w.processes, held: map[string]*node{}, received: map[string]int{}, pendingWrites: map[string]int{}, policy: w.policies[len(w.policies)-1],
	}
	pause := time.Duration(0)
	if w.scenario.waits {
		pause = simPause
	}
	c.controller = newProcess(capturePorts{
		client: client{process: c}, records: c, policy: func() policyFile { return c.policy.policyFile }, guards: w.scenario.guards, now: w.now, pause: pause,
		delayed: func(name string, wait time.Duration) {
			w.say("capture: %d waits %s before it reconciles %s again", c.id, wait, name)
			w.delays++
		},
	})
	c.position = len(w.events) - w.lag(len(w.events)-w.known) // never older than what an earlier process received
	for _, n := range w.events[:c.position] {
		if c.held[n.name] = n; n.gone {
			delete(c.held, n.name)
		}
	}
	w.say("capture: %d starts", c.id)
	for _, name := range w.scenario.names {
		if n := c.held[name]; n != nil {
			c.Added(n.object(), true)
		}
		c.received[name] = len(w.history[name]) - w.lag(len(w.history[name]))
		if c.received[name] > 0 {
			c.Enqueue(name)
		}
	}
	w.captures = append(w.captures, c)
}

func (w *cluster) lead(c *process) {
	w.say("capture: %d leads", c.id)
	c.Lead()
}

func (w *cluster) leaders() (leaders int) {
	for _, c := range w.captures {
		if c.Leads() {
			leaders++
		}
	}
	return leaders
}

func (c *process) die() {
	c.dead = true
	c.captures = slices.DeleteFunc(c.captures, func(o *process) bool { return o == c })
	c.say("capture: %d is killed", c.id)
}

// end has the process end as it does on SIGTERM.
func (c *process) end() {
	if c.busy {
		return
	}
	c.say("capture: %d gets SIGTERM", c.id)
	for _, name := range c.End() {
		if !c.dead {
			c.reconcile(name)
		}
	}
	if !c.dead {
		c.die()
	}
}

// reload has the process read the policy file.
func (c *process) reload() {
	if newest := c.policies[len(c.policies)-1]; !c.busy && c.policy != newest {
		c.policy = newest
		c.say("capture: %d reads the policy", c.id)
		c.EnqueueAll()
	}
}

// receiveNode delivers the next event of the watch. States of a living object may be left out.
func (c *process) receiveNode() bool {
	if c.position == len(c.events) {
		return false
	}
	n := c.events[c.position]
	c.position++
	c.known = max(c.known, c.position)
	if !n.gone && c.chance(c.scenario.coalesce) && c.position < len(c.events) && c.events[c.position].uid == n.uid {
		return true
	}
	prev := c.held[n.name]
	c.say("capture: %d receives %s, deleted: %t", c.id, n.describe(), n.gone)
	switch {
	case n.gone:
		delete(c.held, n.name)
		c.Deleted(n.object(), false)
	case prev == nil:
		c.held[n.name] = n
		c.Added(n.object(), false)
	default:
		c.held[n.name] = n
		c.Updated(prev.object(), n.object())
	}
	return true
}

// relist is what an informer does when its watch is lost: it compares what it holds with what there is.
func (c *process) relist() {
	c.say("capture: %d lists Nodes again", c.id)
	c.position = len(c.events)
	c.known = c.position
	for _, name := range c.scenario.names {
		prev, current := c.held[name], c.nodes[name]
		switch {
		case prev == nil && current == nil:
			continue
		case current == nil:
			delete(c.held, name)
			c.Deleted(prev.object(), true)
			continue
		case prev == nil:
			c.Added(current.object(), false)
		default:
			c.Updated(prev.object(), current.object())
		}
		c.held[name] = current
	}
}

// receiveRecord brings news of a record to the process's cache.
func (c *process) receiveRecord(name string) bool {
	behind := len(c.history[name]) - c.received[name]
	if behind == 0 {
		return false
	}
	c.received[name] += 1 + c.rng.IntN(behind)
	if c.pendingWrites[name] <= c.received[name] {
		delete(c.pendingWrites, name)
	}
	c.say("capture: %d receives the record of %s", c.id, name)
	c.Enqueue(name)
	return true
}

func (c *process) retry() {
	c.waited += simPause
	c.Retry()
}

// work has the process reconcile one Node of its queue, if there is any.
func (c *process) work() bool {
	names := c.Due()
	if len(names) == 0 || c.busy || c.dead {
		return false
	}
	c.checkResync()
	c.reconcile(names[c.rng.IntN(len(names))])
	return true
}

func (c *process) reconcile(name string) {
	c.name = name
	c.say("capture: %d reconciles %s, leading: %t", c.id, c.name, c.Leads())
	c.runAlone(func() {
		pending := c.Pending(c.name)
		c.hands, c.wroteRecord, c.readRecord, c.rememberedAtStart = nil, false, false, c.rememberedOf(c.name)
		c.began = c.logs[c.name].sequence
		for _, state := range pending {
			c.hands = append(c.hands, c.stateOf(state))
		}
		c.queued = len(c.hands)
		done := false
		defer func() { c.note(done && !c.dead) }()
		done = c.Reconcile(context.Background(), c.name)
	})
}

// checkResync checks that a resync would leave out no Node that is not in the queue and for which there is something to do.
func (c *process) checkResync() {
	for _, name := range c.scenario.names {
		if slices.Contains(c.Due(), name) {
			continue
		}
		if step := c.WronglySkipped(name); step != "" {
			c.fail("resync of process %d would skip %s, for which there is something to do: %s", c.id, name, step)
		}
	}
}

// stateOf returns the state that a process holds. What it knows of a deletion that only a list showed is an older state.
func (w *cluster) stateOf(pending pendingState) *node {
	version, err := strconv.Atoi(pending.ResourceVersion)
	if err != nil {
		panic(err)
	}
	return w.byVersion[version]
}

// note gives the oracle what a reconcile has observed. One that knew an older record and had nothing to write comes again when it receives
// the newer one, if the process lives that long, and observes what the Node is then.
func (c *process) note(done bool) {
	done = done && (c.wroteRecord || c.readRecord || c.inMemory(c.name) == len(c.history[c.name]))
	for i, n := range c.hands {
		last := i == len(c.hands)-1
		final := n.gone || i+1 < len(c.hands) && c.hands[i+1].uid != n.uid
		c.observe(n, c.policy, done && (last || final), c.wroteRecord && last && len(c.hands) == 1 || done && final, c.began)
	}
}

// runAlone does something that this process does one at a time, and that its end interrupts.
func (c *process) runAlone(fn func()) {
	depth, reviewing := c.depth, c.reviewing
	c.busy = true
	defer func() {
		c.busy, c.depth, c.reviewing = false, depth, reviewing
		if reason := recover(); reason != nil && reason != any(crashed{c}) {
			panic(reason)
		}
	}()
	fn()
	if c.failure != "" {
		panic(violation(c.failure))
	}
}

func (c *process) inMemory(name string) int { return max(c.received[name], c.pendingWrites[name]) }

// receivedUntil returns the record at a point of its history, as a cache holds it.
func (w *cluster) receivedUntil(name string, i int) (recordEntry, error) {
	if i == 0 || w.history[name][i-1].Version == "" {
		return recordEntry{}, errNoRecord
	}
	return asCached(w.history[name][i-1]), nil
}

// Get returns the record as the process has it in memory.
func (c *process) Get(name string) (recordEntry, error) {
	return c.receivedUntil(name, c.inMemory(name))
}

// GetFromAPI returns the record as the API server has it.
func (c *process) GetFromAPI(ctx context.Context, name string) (entry recordEntry, err error) {
	err = c.call("reads the record of "+name, func() error {
		entry, err = c.records.GetFromAPI(ctx, name)
		return err
	})
	c.readRecord = true
	return entry, err
}

// Put writes a record.
func (c *process) Put(ctx context.Context, next recorded, version string) (entry recordEntry, err error) {
	err = c.call("writes "+describeRecord(next), func() error {
		prev, found := c.recordOf(next.Node)
		if entry, err = c.records.Put(ctx, next, version); err != nil {
			return err
		}
		c.wroteRecord = true
		c.wrote(c, prev, found, entry)
		for _, n := range c.hands {
			if n.name == next.Node {
				c.wroteFrom(n)
			}
			if holds(next, n.uid, n.version) && !holds(prev, n.uid, n.version) { // whatever happens to the process from now on
				c.observe(n, c.policy, true, true, c.began)
			}
		}
		return nil
	})
	if err == nil {
		c.pendingWrites[next.Node] = slices.IndexFunc(c.history[next.Node], func(e recordEntry) bool { return e.Version == entry.Version }) + 1
	}
	return entry, err
}

// wrote notes a write of a record, and whether there was a reason for it.
func (w *cluster) wrote(by *process, prev recorded, found bool, entry recordEntry) {
	name, next := entry.Record.Node, entry.Record
	w.writes++
	w.checkHistory(prev, found, next)
	w.history[name] = append(w.history[name], entry)
	if found && withoutReason(prev, next, by != nil) {
		w.fail("write: the record of %s is written without a change", name)
	}
}

// ListByMachine finds nothing: no policy of the simulation follows machines.
func (c *process) ListByMachine(record.Machine) ([]record.Record, error) { return nil, nil }

// NodeNames returns the names that the process has a record of.
func (c *process) NodeNames() (names []string) {
	for _, name := range c.scenario.names {
		if _, err := c.receivedUntil(name, c.received[name]); err == nil {
			names = append(names, name)
		}
	}
	return names
}

var errServer = apierrors.NewInternalError(errors.New("the simulated API server has a bad moment"))

// call returns a request to the API server. Other things happen before and after it; the process may end, and the request or
// its answer may get lost.
func (c *process) call(subject string, request func() error) error {
	c.meanwhile()
	if !c.calm && c.chance(c.scenario.errors) {
		c.say("capture: %d fails: %s", c.id, subject)
		return errServer
	}
	err := request()
	c.say("capture: %d %s: %v", c.id, subject, err)
	if !c.calm && c.chance(c.scenario.errors) {
		c.say("capture: %d does not get the answer", c.id)
		return errServer
	}
	c.meanwhile()
	return err
}

// meanwhile lets other things happen while the process waits for the API server.
func (c *process) meanwhile() {
	for !c.calm && !c.dead && c.depth < 3 && c.chance(c.scenario.interleave) {
		c.depth++
		c.step()
		c.depth--
	}
	if !c.calm && !c.dead && c.chance(c.scenario.crashes) {
		c.die()
	}
	if c.dead {
		panic(crashed{c})
	}
}

// client, core and nodes are as much of a client as capture needs.
type (
	client struct {
		kubernetes.Interface
		process *process
	}
	core struct {
		typedcorev1.CoreV1Interface
		process *process
	}
	nodes struct {
		typedcorev1.NodeInterface
		process *process
	}
	configMaps struct {
		typedcorev1.ConfigMapInterface
		process *process
	}
)

func (c client) CoreV1() typedcorev1.CoreV1Interface { return core{process: c.process} }
func (c core) Nodes() typedcorev1.NodeInterface      { return nodes{process: c.process} }

func (c core) ConfigMaps(string) typedcorev1.ConfigMapInterface {
	return configMaps{process: c.process}
}

// Get is of an operator who accepts corrections whenever they would be held: few Nodes are soon more than one in ten.
func (c configMaps) Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error) {
	return &corev1.ConfigMap{Data: map[string]string{store.CorrectionsAccepted: c.process.now().Format(time.RFC3339)}}, nil
}

func (c configMaps) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*corev1.ConfigMap, error) {
	return &corev1.ConfigMap{}, nil
}

func (c nodes) Get(_ context.Context, name string, _ metav1.GetOptions) (object *corev1.Node, err error) {
	err = c.process.call("reads "+name, func() error {
		n, found := c.process.nodes[name]
		if !found {
			return apierrors.NewNotFound(nodesResource, name)
		}
		object = n.object()
		return nil
	})
	c.process.takes(object, err)
	return object, err
}

func (c nodes) Patch(_ context.Context, name string, _ types.PatchType, body []byte, _ metav1.PatchOptions, _ ...string) (object *corev1.Node, err error) {
	err = c.process.call("patches "+name+" "+string(body), func() error {
		n, err := c.process.patchNode(name, body)
		if err != nil {
			return err
		}
		object = n.object()
		return nil
	})
	c.process.takes(object, err)
	return object, err
}

// takes notes a state that the reconcile has got from the API server, if it is of the object that it works on.
func (c *process) takes(object *corev1.Node, err error) {
	if err != nil {
		return
	}
	n := c.stateOf(pendingState{ResourceVersion: object.ResourceVersion})
	if len(c.hands) > 0 && c.hands[len(c.hands)-1].uid == n.uid {
		c.hands = append(c.hands, n)
	}
}
