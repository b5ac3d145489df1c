//go:build oldcore

package capture

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// simRecords are the records as a replica of the webhook knows them when it reviews a deletion.
type simRecords struct {
	*world
	*simWebhook
}

// reviewDeletion has the real handler look at a Node that is about to be deleted, if a replica is up.
func (w *world) reviewDeletion(n *simNode) {
	i := w.rng.IntN(len(w.webhooks))
	if w.webhooks[i].down {
		return
	}
	for len(w.late) > 0 { // not as late as that
		w.landLate()
	}
	w.say("webhook: %d reviews the deletion of %s", i, brief(n))
	records := simRecords{w, w.webhooks[i]}
	d := &Deletions{Nodes: records.live(), Records: records, Policy: func() policy.Policy { return w.policy }, Guards: w.guards(), Now: w.now}
	outcome, err := d.record(context.Background(), hint{n.name, n.uid})
	w.say("webhook: %d: %s %v", i, outcome, err)
	w.known = len(w.log)
	if err == nil && outcome != deletionAbsent && !w.mayTurnBack(n.name, n.uid, n.version, nil) {
		w.model.keeps(n.name, n.uid, n.version)
	}
}

// forgeReviews has somebody send reviews of deletions that nobody asked for. They may move the moment of the last observation, once,
// and nothing else; capture has nothing to do because of them.
func (w *world) forgeReviews(leader *simCapture) {
	w.say("rest:    somebody forges reviews of the deletion of every Node")
	var writes int
	for round := range 2 {
		writes = w.writes
		for _, name := range w.story.names {
			n, before := w.nodes[name], w.rememberedOf(name)
			if n == nil {
				continue
			}
			if w.reviewDeletion(n); !maps.Equal(before, w.rememberedOf(name)) {
				w.fail("a forged review changed what is remembered of %s", name)
			}
		}
		reviewed := w.writes
		if w.drain(); w.writes != reviewed {
			w.fail("capture wrote something after forged reviews, round %d", round)
		}
	}
	if w.writes != writes {
		w.fail("forged reviews of what is recorded wrote something again")
	}
	w.check(leader)
}

// liveNodes is how a replica reads a Node from the API server.
type liveNodes struct{ simRecords }

func (r simRecords) live() Nodes { return liveNodes{r} }

func (r liveNodes) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Node, error) {
	r.meanwhile()
	if r.fails() {
		return nil, errServer
	}
	n, found := r.nodes[name]
	if !found {
		return nil, apierrors.NewNotFound(nodesResource, name)
	}
	object := n.object()
	r.meanwhile()
	return object, nil
}

func (r simRecords) Get(name string) (store.Entry, error) {
	return r.heardUntil(name, r.inMemory(name))
}

func (r simRecords) Nodes() []string { return nil }

func (r simRecords) GetLive(ctx context.Context, name string) (store.Entry, error) {
	r.meanwhile()
	if r.fails() {
		return store.Entry{}, errServer
	}
	return r.records.GetLive(ctx, name)
}

func (r simRecords) Put(ctx context.Context, next store.Record, version string) (store.Entry, error) {
	r.meanwhile()
	if r.fails() {
		return store.Entry{}, errServer
	}
	if !r.calm && r.chance(r.story.lateWrites) {
		r.say("webhook: gives up to write %s, which is on its way", brief(next))
		r.late = append(r.late, func() { _, _ = r.put(ctx, next, version) })
		return store.Entry{}, errServer
	}
	entry, err := r.put(ctx, next, version)
	if err == nil && r.fails() {
		return store.Entry{}, errServer
	}
	if err == nil {
		r.own[next.Node] = slices.IndexFunc(r.history[next.Node], func(e store.Entry) bool { return e.Version == entry.Version }) + 1
	}
	r.meanwhile()
	return entry, err
}

func (r simRecords) put(ctx context.Context, next store.Record, version string) (store.Entry, error) {
	before, found := r.recordOf(next.Node)
	entry, err := r.records.Put(ctx, next, version)
	r.say("webhook: write %s: %v", brief(next), err)
	if err == nil {
		r.wrote(nil, before, found, entry)
	}
	return entry, err
}

func (r simRecords) fails() bool { return !r.calm && r.chance(r.story.errors) }

// meanwhile lets other things happen while the replica waits for the API server.
func (r simRecords) meanwhile() {
	for !r.calm && r.depth < 3 && r.chance(r.story.interleave) {
		r.depth++
		r.step()
		r.depth--
	}
}

// landLate lets a write arrive that nobody waits for any more.
func (w *world) landLate() {
	if len(w.late) > 0 {
		w.say("webhook: a late write arrives")
		w.late[0]()
		w.late = w.late[1:]
	}
}
