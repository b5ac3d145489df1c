package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	eventrecord "k8s.io/client-go/tools/record"

	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/storetest"
)

// cluster is an API server that holds Nodes, records in memory, and replicas of capture that receive all changes at once.
type cluster struct {
	t      testing.TB
	policy policy.Policy
	guard  *guard.Guard
	storetest.Memory

	mu       sync.Mutex
	clock    time.Time
	version  int
	nodes    map[string]*corev1.Node
	replicas []*replica
	// admits refuses changes of Nodes.
	admits func(prev, updated *corev1.Node) error
}

// replica is a capture whose worker is the test.
type replica struct {
	*Controller
	cluster  *cluster
	events   *eventrecord.FakeRecorder
	hook     func(write string) // called before each write arrives
	deaf     bool               // its watches bring nothing
	dueAsked int                // how often due was called
	// versionless says that answers to it lack the resourceVersion.
	versionless bool
	// sees changes how a record appears to it, in memory or live; refuses is why no record can be written.
	sees    func(name string, live bool, entry *store.Entry, err error) error
	refuses error

	mu     sync.Mutex
	writes []string
	reads  []string
}

// newCluster returns a cluster with these sections of the policy, records and Nodes.
func newCluster(t testing.TB, sections string, holds ...any) *cluster {
	t.Helper()
	c := &cluster{
		t: t, policy: loadPolicy(t, sections), clock: now, version: 100, nodes: map[string]*corev1.Node{}, guard: guard.Known(true),
	}
	for _, object := range holds {
		if n, ok := object.(*corev1.Node); ok {
			c.register(n)
		} else {
			c.holds(object.(*record.Record))
		}
	}
	return c
}

// replica starts a capture that knows all that is there.
func (c *cluster) replica(modify ...func(*Options)) *replica {
	c.t.Helper()
	r := &replica{cluster: c, events: eventrecord.NewFakeRecorder(10_000)}
	client := fake.NewClientset()
	client.PrependReactor("get", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		n, err := c.get(action.(clienttesting.GetAction).GetName())
		r.note(&r.reads, "get "+action.(clienttesting.GetAction).GetName())
		return true, n, err
	})
	client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		r.writing("patch " + patch.GetName())
		n, err := c.patch(patch.GetName(), patch.GetPatch())
		if err == nil && r.versionless {
			n.ResourceVersion = ""
		}
		return true, n, err
	})
	options := Options{
		Client: client, Records: replicaRecords{&c.Memory, r}, Policy: func() policy.Policy { return c.policy }, Events: r.events, Guard: c.guard,
		Metrics: NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler), Workers: 1, Now: c.now,
	}
	for _, m := range modify {
		m(&options)
	}
	var err error
	r.Controller, err = New(options)
	require.NoError(c.t, err)
	c.t.Cleanup(r.queue.ShutDown)
	c.mu.Lock()
	c.replicas = append(c.replicas, r)
	c.mu.Unlock()
	for _, n := range c.nodes {
		r.receives(n)
	}
	for _, name := range c.NodeNames() {
		r.Enqueue(name)
	}
	return r
}

// leader returns a replica that leads.
func (c *cluster) leader(modify ...func(*Options)) *replica {
	r := c.replica(modify...)
	r.Lead()
	return r
}

// leads returns a leader that has done all that was to do.
func (c *cluster) leads() *replica {
	c.t.Helper()
	r := c.leader()
	require.Empty(c.t, r.works())
	return r
}

// releases has the replica take rules for those in force.
func (r *replica) releases(rules string) {
	r.rulesHeld = func(p policy.Policy) bool { return p.RulesHash() != rules }
}

func (c *cluster) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock
}

func (c *cluster) passes(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock = c.clock.Add(d)
}

// holds stores a record.
func (c *cluster) holds(r *record.Record) {
	c.t.Helper()
	_, err := c.Put(c.t.Context(), *r, "")
	require.NoError(c.t, err)
}

// rewrites has another process write the record of n1.
func (c *cluster) rewrites(change func(record.Record) record.Record) {
	c.t.Helper()
	entry, err := c.GetFromAPI(c.t.Context(), "n1")
	require.NoError(c.t, err)
	_, err = c.Put(c.t.Context(), change(entry.Record), entry.Version)
	require.NoError(c.t, err)
}

// record returns what is stored for n1.
func (c *cluster) record() record.Record {
	c.t.Helper()
	entry, err := c.GetFromAPI(c.t.Context(), "n1")
	require.NoError(c.t, err)
	return entry.Record
}

// node is n1 as the API server has it.
func (c *cluster) node() *corev1.Node {
	c.t.Helper()
	n, err := c.get("n1")
	require.NoError(c.t, err)
	return n
}

// shows returns the labels and taints of n1, by key.
func (c *cluster) shows() labels { return observe.FromNode(c.node()).Items }

func (c *cluster) get(name string) (*corev1.Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.nodes[name]
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	return n.DeepCopy(), nil
}

// register stores a Node as it is.
func (c *cluster) register(n *corev1.Node) {
	c.mu.Lock()
	version, err := strconv.Atoi(n.ResourceVersion)
	c.version = max(c.version, version)
	c.nodes[n.Name] = n
	c.mu.Unlock()
	require.NoError(c.t, err)
	c.tell(n)
}

// edit is a change of n1 by a client.
func (c *cluster) edit(change func(n *corev1.Node)) {
	c.t.Helper()
	n := c.node()
	change(n)
	c.commit(n)
}

// commit stores the next state of a Node.
func (c *cluster) commit(n *corev1.Node) {
	c.mu.Lock()
	c.version++
	n.ResourceVersion = strconv.Itoa(c.version)
	c.nodes[n.Name] = n
	c.mu.Unlock()
	c.tell(n)
}

// label sets a label of n1, as kubectl does.
func (c *cluster) label(key, value string) {
	c.edit(func(n *corev1.Node) {
		if n.Labels == nil {
			n.Labels = labels{}
		}
		n.Labels[key] = value
		owned("kubectl-label", key)(n)
	})
}

func (c *cluster) untaint(key string) {
	c.edit(func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
	})
}

func (c *cluster) delete() { c.deleteNode("n1") }

func (c *cluster) deleteNode(name string) {
	c.t.Helper()
	n, err := c.get(name)
	require.NoError(c.t, err)
	c.mu.Lock()
	c.version++
	n.ResourceVersion = strconv.Itoa(c.version)
	delete(c.nodes, name)
	c.mu.Unlock()
	for _, r := range c.listening() {
		r.observations.observeDeleted(observe.CompactNodeOf(observe.FromNodeWithAnnotations(n, r.Policy().Annotations())))
		r.Enqueue(name)
	}
}

func (c *cluster) patch(name string, body []byte) (*corev1.Node, error) {
	c.mu.Lock()
	prev, ok := c.nodes[name]
	if !ok {
		c.mu.Unlock()
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	updated, err := c.patched(prev, body)
	if err == nil {
		c.nodes[name] = updated
	}
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	c.tell(updated)
	return updated.DeepCopy(), nil
}

func (c *cluster) patched(prev *corev1.Node, body []byte) (*corev1.Node, error) {
	var sent nodePatch
	if err := json.Unmarshal(body, &sent); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if types.UID(sent.Metadata.UID) != prev.UID {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), prev.Name, nil)
	}
	if sent.Metadata.ResourceVersion != prev.ResourceVersion {
		return nil, apierrors.NewConflict(corev1.Resource("nodes"), prev.Name, errors.New("the object has been modified"))
	}
	document, err := json.Marshal(prev)
	if err != nil {
		return nil, err
	}
	if document, err = jsonpatch.MergePatch(document, body); err != nil {
		return nil, err
	}
	updated := &corev1.Node{}
	if err := json.Unmarshal(document, updated); err != nil {
		return nil, err
	}
	if c.admits != nil {
		if err := c.admits(prev, updated); err != nil {
			return nil, apierrors.NewForbidden(corev1.Resource("nodes"), prev.Name, err)
		}
	}
	c.version++
	updated.ResourceVersion = strconv.Itoa(c.version)
	return updated, nil
}

// tell brings a state of a Node to all replicas.
func (c *cluster) tell(n *corev1.Node) {
	for _, r := range c.listening() {
		r.receives(n)
	}
}

// listening returns the replicas whose watches bring what happens.
func (c *cluster) listening() []*replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.replicas), func(r *replica) bool { return r.deaf })
}

func (r *replica) receives(n *corev1.Node) {
	if r.observations.observeLive(observe.CompactNodeOf(observe.FromNodeWithAnnotations(n, r.Policy().Annotations()))) {
		r.Enqueue(n.Name)
	}
}

// works reconciles all that is queued, and returns the errors by Node.
func (r *replica) works() map[string]error {
	failed := map[string]error{}
	for r.queue.Len() > 0 {
		name, _ := r.queue.Get()
		if err := r.reconcileOne(r.cluster.t.Context(), name); err != nil {
			failed[name] = err
		}
		r.queue.Done(name)
	}
	return failed
}

// reconciles works on n1.
func (r *replica) reconciles() {
	r.cluster.t.Helper()
	r.Enqueue("n1")
	require.Empty(r.cluster.t, r.works())
}

// rests checks that nothing is left to do.
func (r *replica) rests() {
	r.cluster.t.Helper()
	r.enqueueAll()
	require.Empty(r.cluster.t, r.works())
	assert.Empty(r.cluster.t, r.wrote(), "nothing is left to do")
}

// meanwhile has something happen once, just before such a write arrives.
func (r *replica) meanwhile(write string, fn func()) {
	first := sync.OnceFunc(fn)
	r.hook = func(arrived string) {
		if arrived == write {
			first()
		}
	}
}

// looks is a tick of a replica that does not lead.
func (r *replica) looks() {
	r.cluster.t.Helper()
	for _, name := range r.standby.TakeOverdue(r.cluster.now()) {
		r.Enqueue(name)
	}
	require.Empty(r.cluster.t, r.works())
}

func (r *replica) writing(write string) {
	r.note(&r.writes, write)
	if r.hook != nil {
		r.hook(write)
	}
}

func (r *replica) note(list *[]string, call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, call)
}

// wrote returns the writes since it was last called.
func (r *replica) wrote() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	writes := r.writes
	r.writes = nil
	return writes
}

// reported returns the reasons of the Events since it was last called.
func (r *replica) reported() (reasons []string) {
	for {
		select {
		case event := <-r.events.Events:
			var kind, reason string
			_, err := fmt.Sscan(event, &kind, &reason)
			require.NoError(r.cluster.t, err)
			reasons = append(reasons, reason)
		default:
			return reasons
		}
	}
}

// replicaRecords are the records as one replica reads and writes them.
type replicaRecords struct {
	*storetest.Memory
	replica *replica
}

func (r replicaRecords) Get(name string) (store.Entry, error) {
	entry, err := r.Memory.Get(name)
	return r.seen(name, false, entry, err)
}

func (r replicaRecords) GetFromAPI(ctx context.Context, name string) (store.Entry, error) {
	entry, err := r.Memory.GetFromAPI(ctx, name)
	return r.seen(name, true, entry, err)
}

func (r replicaRecords) seen(name string, live bool, entry store.Entry, err error) (store.Entry, error) {
	if r.replica.sees != nil {
		err = r.replica.sees(name, live, &entry, err)
	}
	return entry, err
}

func (r replicaRecords) Put(ctx context.Context, next record.Record, version string) (store.Entry, error) {
	r.replica.writing("put " + next.Node)
	if r.replica.refuses != nil {
		return store.Entry{}, r.replica.refuses
	}
	entry, err := r.Memory.Put(ctx, next, version)
	if err == nil {
		for _, o := range r.replica.cluster.listening() {
			o.Enqueue(next.Node)
		}
	}
	return entry, err
}

// due returns the Nodes of which the replica notes that something is due. It counts as offered for them, so each call is an hour later.
func (r *replica) due() []string {
	r.dueAsked++
	return r.standby.TakeOverdue(r.Now().Add(time.Duration(r.dueAsked) * time.Hour))
}
