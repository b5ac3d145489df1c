package capture_test

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
)

// webhookReplica is one replica of the webhook: the real handlers with a cache of records that lags.
type webhookReplica struct {
	stopped       bool
	stale         bool           // its watch has made no progress for long, and it knows
	received      map[string]int // how much of each record's history its watch has brought
	pendingWrites map[string]int // writes of its own that the watch has not brought yet; the same measure
	policy        *policyInUse
}

func (h *webhookReplica) inMemory(name string) int {
	return max(h.received[name], h.pendingWrites[name])
}

func (h *webhookReplica) receiveAll(w *cluster) {
	for name, history := range w.history {
		h.received[name] = len(history)
	}
}

func (w *cluster) anyWebhook() (number int, h *webhookReplica) {
	number = w.rng.IntN(len(w.webhooks))
	return number, w.webhooks[number]
}

func (w *cluster) webhookSteps() []step {
	return []step{
		{3, "webhook stops or starts", func() {
			i, h := w.anyWebhook()
			h.stopped = !h.stopped
			w.say("webhook: %d is down: %t", i, h.stopped)
		}},
		{1, "webhook stalls or recovers", func() {
			i, h := w.anyWebhook()
			h.stale = !h.stale
			w.say("webhook: %d knows that it is stale: %t", i, h.stale)
		}},
		{2, "webhook reads the policy", func() {
			_, h := w.anyWebhook()
			h.policy = w.policies[len(w.policies)-1]
		}},
		{2, "late write", w.landLate},
		{6, "webhook receives a record", func() {
			i, h := w.anyWebhook()
			name := w.anyName()
			if h.received[name] < len(w.history[name]) {
				h.received[name]++
				w.say("webhook: %d receives %s", i, describeRecord(w.history[name][h.received[name]-1].Record))
			}
		}},
	}
}

// replicaRecords are the records as a replica knows them.
type replicaRecords struct {
	*cluster
	*webhookReplica
	read    *node        // what the live GET has returned
	faulted bool         // a call has failed, or may have
	by      *policyInUse // that the review follows

	reviewed types.UID // the object whose deletion is reviewed
}

// ListByMachine finds nothing: no policy of the simulation follows machines.
func (r *replicaRecords) ListByMachine(record.Machine) ([]record.Record, error) { return nil, nil }

// Progress returns when the records were last known to be current.
func (r *replicaRecords) Progress() time.Time {
	if r.stale {
		return time.Time{}
	}
	return time.Now()
}

// review returns what a replica does to a Node that is about to be created. It returns what the replica remembers of the Node.
func (w *cluster) review(h *webhookReplica, n *node, byKubelet bool) (knew map[string]string) {
	records := &replicaRecords{cluster: w, webhookReplica: h}
	object := n.object()
	object.UID, object.ResourceVersion = "", ""
	patched := reviewCreation(records, func() policyFile { return h.policy.policyFile }, byKubelet, object)

	prev := n.items()
	n.labels, n.taints, n.annotations = patched.Labels, patched.Spec.Taints, patched.Annotations
	n.setOwners(patched.ManagedFields)
	n.next.givenInReview = map[string]string{}
	for item, value := range n.items() {
		if old, ok := prev[item]; ok && old == value {
			continue
		}
		w.edits = append(w.edits, simEdit{object: n.uid, item: item, value: value, manager: ourManager})
		n.next.givenInReview[item] = value
	}
	if _, stamped := n.annotations[stampAnnotation]; stamped {
		for k := range keys {
			n.next.items[k].Forged = false // it was overwritten
		}
	}
	if entry, err := records.Get(n.name); err == nil {
		knew = remembered(entry.Record)
	}
	if !h.stale && h.inMemory(n.name) == len(w.history[n.name]) {
		w.checkRegistration(h, n)
	}
	return knew
}

// checkRegistration checks that nobody can see a Node without the gate that lacks a remembered key, if the replica is current.
func (w *cluster) checkRegistration(h *webhookReplica, n *node) {
	shown, known := n.items(), w.rememberedOf(n.name)
	for k, key := range keys {
		_, ok := shown[key]
		if _, wanted := known[key]; wanted && !ok && !w.scenario.neverRestores(k) && h.policy.selects[k] && !gate.Holds(n.taints) {
			w.fail("register: %s registers without %s and without the gate", n.name, key)
		}
	}
}

// reviewDeletion has the real handler look at a Node that is about to be deleted, if a replica is up.
func (w *cluster) reviewDeletion(n *node) {
	i, h := w.anyWebhook()
	if h.stopped {
		return
	}
	for len(w.late) > 0 { // not as late as that
		w.landLate()
	}
	w.say("webhook: %d reviews the deletion of %s", i, n.describe())
	by := h.policy // to the end of the review
	records := &replicaRecords{cluster: w, webhookReplica: h, by: by, reviewed: n.uid}
	err := recordDeletion(liveNodes{records}, records, func() policyFile { return by.policyFile }, w.scenario.guards, w.now, n.name, n.uid)
	w.say("webhook: %d: %v", i, err)
	w.known = len(w.events)
	if records.read != nil {
		done := err == nil && !records.faulted
		w.observe(records.read, by, done, done, 0)
	}
}

// forgeReviews sends reviews of deletions that nobody asked for. They may move the version of the last observation, once, and nothing
// else; capture has nothing to do because of them.
func (w *cluster) forgeReviews() {
	w.say("attacker: forges reviews of the deletion of every Node")
	var writes int
	for round := range 2 {
		writes = w.writes
		for _, name := range w.scenario.names {
			n, prev := w.nodes[name], w.rememberedOf(name)
			if n == nil {
				continue
			}
			if w.reviewDeletion(n); !maps.Equal(prev, w.rememberedOf(name)) {
				w.fail("forged review changed the record of %s: %v, %v", name, prev, w.rememberedOf(name))
			}
		}
		reviewed := w.writes
		if w.drain(); w.writes != reviewed {
			w.fail("forged review: capture wrote something, round %d", round)
		}
	}
	if w.writes != writes {
		w.fail("forged review of what is recorded wrote something again")
	}
	w.check()
}

// liveNodes is how a replica reads a Node from the API server.
type liveNodes struct{ *replicaRecords }

func (r liveNodes) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Node, error) {
	r.meanwhile()
	if r.fails() {
		return nil, errServer
	}
	n, found := r.nodes[name]
	if !found {
		return nil, apierrors.NewNotFound(nodesResource, name)
	}
	if n.uid == r.reviewed { // the handler leaves another object of the name alone
		r.read = n
	}
	r.meanwhile()
	return n.object(), nil
}

func (r *replicaRecords) Get(name string) (recordEntry, error) {
	return r.receivedUntil(name, r.inMemory(name))
}

func (r *replicaRecords) NodeNames() []string { return nil }

func (r *replicaRecords) GetFromAPI(ctx context.Context, name string) (recordEntry, error) {
	r.meanwhile()
	if r.fails() {
		return recordEntry{}, errServer
	}
	return r.records.GetFromAPI(ctx, name)
}

func (r *replicaRecords) Put(ctx context.Context, next recorded, version string) (recordEntry, error) {
	r.meanwhile()
	if r.fails() {
		return recordEntry{}, errServer
	}
	if !r.calm && r.chance(r.scenario.lateWrites) {
		r.say("webhook: gives up to write %s, which is on its way", describeRecord(next))
		r.faulted = true
		r.late = append(r.late, func() {
			_, _ = r.put(ctx, next, version)
		})
		return recordEntry{}, errServer
	}
	entry, err := r.put(ctx, next, version)
	if err == nil && r.fails() {
		return recordEntry{}, errServer
	}
	if err == nil {
		r.pendingWrites[next.Node] = slices.IndexFunc(r.history[next.Node], func(e recordEntry) bool { return e.Version == entry.Version }) + 1
	}
	r.meanwhile()
	return entry, err
}

func (r *replicaRecords) put(ctx context.Context, next recorded, version string) (recordEntry, error) {
	prev, found := r.recordOf(next.Node)
	entry, err := r.records.Put(ctx, next, version)
	r.say("webhook: writes %s: %v", describeRecord(next), err)
	if err == nil {
		r.wrote(nil, prev, found, entry)
		r.wroteFrom(r.read)
		r.observe(r.read, r.by, true, true, 0)
	}
	return entry, err
}

func (r *replicaRecords) fails() bool {
	fails := !r.calm && r.chance(r.scenario.errors)
	r.faulted = r.faulted || fails
	return fails
}

// meanwhile lets other things happen while the replica waits for the API server.
func (r *replicaRecords) meanwhile() {
	for !r.calm && r.depth < 3 && r.chance(r.scenario.interleave) {
		r.depth++
		r.step()
		r.depth--
	}
}

// landLate lets a write arrive whose client has given up.
func (w *cluster) landLate() {
	if len(w.late) > 0 {
		w.say("webhook: a late write arrives")
		w.late[0]()
		w.late = w.late[1:]
	}
}
