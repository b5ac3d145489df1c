package capture

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
)

// renamedVariable has the test below rename a key on so many Nodes, of which each tenth one is away. One goroutine does all, so there is nothing
// for the race detector: `make unit` runs it with 200 Nodes without it. It takes the square of their number.
const renamedVariable, usuallyRenamed = "NODEKEEP_RENAMED_NODES", 100

// killedAfterOneWrite starts a capture that dies when it has written once, before it receives the answer. It is false if there was nothing to write.
func (c *cluster) killedAfterOneWrite() (wrote bool) {
	c.t.Helper()
	r := c.leader()
	r.releases(c.policy.RulesHash())
	r.hook = func(string) {
		if len(r.writes) > 1 { // this is the second one
			panic("killed")
		}
	}
	for r.queue.Len() > 0 && len(r.writes) < 2 {
		name, _ := r.queue.Get()
		err := r.reconcileOne(c.t.Context(), name)
		if len(r.writes) < 2 {
			require.NoError(c.t, err)
		}
		r.queue.Done(name)
	}
	r.queue.ShutDown()
	c.mu.Lock()
	c.replicas = slices.DeleteFunc(c.replicas, func(o *replica) bool { return o == r })
	c.mu.Unlock()
	return len(r.writes) > 0
}

// killedAfterEachWrite has one capture after the other write once, until nothing is left to write. It counts the writes.
func (c *cluster) killedAfterEachWrite() (writes int) {
	c.t.Helper()
	for c.killedAfterOneWrite() {
		writes++
		require.Less(c.t, writes, 4*len(c.NodeNames()), "this never ends")
	}
	return writes
}

// named gives a Node and its record a name.
func named(name string, n *corev1.Node) *corev1.Node { n.Name = name; return n }

func TestARenameOfManyNodesEndsTheSameThoughCaptureIsKilledAfterEachWrite(t *testing.T) {
	all := usuallyRenamed
	if written := os.Getenv(renamedVariable); written != "" {
		number, err := strconv.Atoi(written)
		require.NoError(t, err)
		all = number
	}
	absent := all / 10
	w := newCluster(t, "")
	w.neverWithout(oldKey, newKey)
	valueOf := func(i int) string { return fmt.Sprintf("model-%d", i%7) }
	nameOf := func(i int) string { return fmt.Sprintf("node-%d", i) }
	for i := range all {
		r := remembered("a", 10, labels{oldKey: valueOf(i), "rack": "r1"})
		if i < absent {
			goneSince(earlier)(r)
		} else {
			w.register(named(nameOf(i), node("a", "10", labels{oldKey: valueOf(i), "rack": "r1"}, owned("kubectl-label", oldKey, "rack"))))
		}
		r.Node = nameOf(i)
		w.holds(r)
	}
	shows := func(want func(i int) labels) {
		t.Helper()
		for i := absent; i < all; i++ {
			n, err := w.get(nameOf(i))
			require.NoError(t, err)
			assert.Equal(t, want(i), n.Labels, n.Name)
		}
	}
	remembers := func(want func(i int) labels) {
		t.Helper()
		for i := range all {
			entry, err := w.GetFromAPI(t.Context(), nameOf(i))
			require.NoError(t, err)
			assert.Equal(t, want(i), entry.Record.Items(), nameOf(i))
		}
	}
	old := func(i int) labels { return labels{oldKey: valueOf(i), "rack": "r1"} }
	renamed := func(i int) labels { return labels{newKey: valueOf(i), "rack": "r1"} }
	present := all - absent

	assert.Zero(t, w.killedAfterEachWrite(), "all is recorded")
	w.policy = loadPolicy(t, migrating(policy.MigrateBoth)).WithPredecessor(w.policy)
	assert.Equal(t, 2*present, w.killedAfterEachWrite(), "the record of each Node, and then the Node")
	shows(func(i int) labels { return labels{oldKey: valueOf(i), newKey: valueOf(i), "rack": "r1"} })
	remembers(old)

	w.policy = loadPolicy(t, migrating(policy.MigrateNew)).WithPredecessor(w.policy)
	assert.Equal(t, all+present, w.killedAfterEachWrite(), "each record, and then each Node that is there")
	shows(renamed)
	remembers(renamed)

	w.policy = loadPolicy(t, "").WithPredecessor(w.policy)
	assert.Zero(t, w.killedAfterEachWrite(), "the entry can be removed from the policy")
	for i := range absent { // their kubelets register them, and the webhook restores what the records have
		w.register(named(nameOf(i), node("b", "200", renamed(i), gated, given(renamed(i)))))
	}
	w.killedAfterEachWrite()
	for i := range absent {
		n, err := w.get(nameOf(i))
		require.NoError(t, err)
		assert.Equal(t, renamed(i), n.Labels, n.Name)
		assert.NotContains(t, n.Spec.Taints, gate.Taint())
	}
	shows(renamed)
	remembers(renamed)
}
