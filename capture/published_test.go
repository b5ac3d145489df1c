package capture

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/policy"
)

// publishedCluster is a cluster with a Node n1 that has been ready for an hour, and a leader that follows what agents publish of Nodes.
type publishedCluster struct {
	*cluster
	t      *testing.T
	leader *replica
	log    lockedBuffer

	mu     sync.Mutex
	now    policy.Policy
	denied error
	lists  int
}

func newPublishedCluster(t *testing.T, sections string, denied error) *publishedCluster {
	w := &publishedCluster{cluster: newCluster(t, ""), t: t, now: loadPolicy(t, sections), denied: denied}
	w.register(node("a", "10", nil, gpus("0", time.Hour)))
	return w
}

// leads adds the leader.
func (w *publishedCluster) leads(replacement func(o *Options)) {
	w.leader = w.cluster.leader(func(o *Options) {
		o.Policy = func() policy.Policy { w.mu.Lock(); defer w.mu.Unlock(); return w.now }
		o.Logger = slog.New(slog.NewTextHandler(&w.log, nil))
		replacement(o)
	})
}

// list counts lists of what is published, and denies them.
func (w *publishedCluster) list(clienttesting.Action) (bool, runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists++
	return w.denied != nil, nil, w.denied
}

// runs follows until the test ends.
func (w *publishedCluster) runs(follow func(ctx context.Context, c *Controller)) {
	var done sync.WaitGroup
	w.t.Cleanup(done.Wait)
	done.Go(func() { follow(w.t.Context(), w.leader.Controller) })
}

// follows has the policy replaced.
func (w *publishedCluster) follows(sections string) {
	p := loadPolicy(w.t, sections)
	w.mu.Lock()
	w.now = p
	w.mu.Unlock()
	w.leader.EnqueueAll()
}

func (w *publishedCluster) reads() int { w.mu.Lock(); defer w.mu.Unlock(); return w.lists }

// becomes works until n1 shows the labels.
func (w *publishedCluster) becomes(want labels) {
	w.t.Helper()
	assert.Eventually(w.t, func() bool {
		w.leader.rollout.Check(w.t.Context()) // as every ten seconds
		return len(w.leader.works()) == 0 && assert.ObjectsAreEqual(want, w.shows())
	}, 3*time.Minute, 5*time.Millisecond, "it shows %v", w.shows())
}

// stays works for a while, in which n1 must not change.
func (w *publishedCluster) stays(want labels) {
	w.t.Helper()
	for range 20 {
		w.leader.rollout.Check(w.t.Context()) // as every ten seconds
		require.Empty(w.t, w.leader.works())
		require.Equal(w.t, want, w.shows())
		time.Sleep(5 * time.Millisecond)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.String(), text)
}
