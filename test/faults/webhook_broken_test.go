package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"nodekeep.dev/nodekeep/test/harness"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ordinary is what the webhook restores in the CREATE; with protected, the rest waits for capture behind the gate.
var (
	ordinary  = map[string]string{"dedicated": "ci", "example.com/pool": "blue"}
	protected = map[string]string{"dedicated": "ci", worker: ""}
)

// returning are Nodes that are remembered, are deleted while something is broken, and register again.
type returning struct {
	names []string
	want  map[string]string
}

func rememberNodes(t testing.TB, prefix string, count int, want map[string]string) returning {
	t.Helper()
	r := returning{want: want}
	for n := range count {
		r.names = append(r.names, fmt.Sprintf("%s-%d", prefix, n))
	}
	harness.Each(r.names, 4, func(name string) { remembered(t, name, want) })
	return r
}

// measured is what became of returning Nodes.
type measured struct {
	deleted, registered, completed time.Duration // the slowest of each
	soonest                        time.Duration // the fastest registration
	restored                       int           // complete in the CREATE itself
	late                           int           // not so, but the API server may have given up on a webhook that works
}

// comeBack deletes the Nodes and has their kubelets register them, all at once, and waits until they are complete. Whatever
// is broken, no registration fails, no Node is ever schedulable without what it should carry, and no record loses
// anything.
func (r returning) comeBack(t testing.TB) measured {
	t.Helper()
	stop := watchNodes(t)
	all := make([]measured, len(r.names))
	harness.Each(r.names, len(r.names), func(name string) {
		m := &all[slices.Index(r.names, name)]
		client, began := kubelet(t, name), time.Now()
		require.NoError(t, nodekeep.Admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}), "a Node can always be deleted")
		m.deleted, began = time.Since(began), time.Now()
		back, err := client.CoreV1().Nodes().Create(t.Context(), registration(name, nil), metav1.CreateOptions{})
		require.NoError(t, err, "a kubelet must always be able to register its Node")
		m.registered, began = time.Since(began), time.Now()
		switch {
		case !gated(back) && hasAll(back.Labels, r.want):
			m.restored++
		case !gated(back):
			assert.Fail(t, "a Node joined bare", "%s with %v", name, back.Labels)
		case m.registered >= webhookTimeout:
			m.late++
		}
		assert.Eventually(t, func() bool {
			node, err := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && !gated(node) && hasAll(node.Labels, r.want)
		}, settles, 10*time.Millisecond, "capture must complete node %s", name)
		m.completed = time.Since(began)
	})
	for _, name := range r.names {
		remembers(t, getNode(t, name), r.want)
	}
	should := map[string]map[string]string{}
	for _, name := range r.names {
		should[name] = r.want
	}
	neverBare(t, stop(), should)
	require.False(t, t.Failed())
	return slowest(all)
}

func slowest(all []measured) (s measured) {
	s.soonest = all[0].registered
	for _, m := range all {
		s.deleted, s.registered, s.completed = max(s.deleted, m.deleted), max(s.registered, m.registered), max(s.completed, m.completed)
		s.soonest = min(s.soonest, m.registered)
		s.restored += m.restored
		s.late += m.late
	}
	return s
}

// attempts is how often something is tried that a machine which stands still for a moment can spoil.
const attempts = 5

// areRestored has the Nodes come back and asserts that each was complete in the CREATE itself. A round in which the API server
// may have given up on a call is repeated; what is missing in an answer that came in time is not forgiven.
func (r returning) areRestored(t testing.TB) {
	t.Helper()
	m := r.comeBack(t)
	for n := 1; n < attempts && m.late > 0 && m.restored+m.late == len(r.names); n++ {
		t.Logf("once more: %s", m)
		m = r.comeBack(t)
	}
	assert.Equal(t, len(r.names), m.restored, "all must be restored in the CREATE")
}

func (m measured) String() string {
	return fmt.Sprintf("deleted after %s, registered after %s, complete %s later, %d restored in the CREATE",
		round(m.deleted), round(m.registered), round(m.completed), m.restored)
}

// The timeout of both webhooks is 1 s; what a busy machine adds is another matter.
const delayed = 5 * time.Second

func TestAWebhookThatHangsOrAnswersGarbageDelaysARegistrationByItsTimeoutAtMostAndCaptureCompletesTheNode(t *testing.T) {
	certificate := webhookCertificate(t)
	installed := webhookAddress(t)
	var healed []time.Duration
	for n, c := range brokenWebhooks(t, installed) {
		t.Run(c.name, func(t *testing.T) {
			want := protected
			if c.want != nil {
				want = c.want
			}
			nodes := rememberNodes(t, fmt.Sprintf("broken-%d", n), 3, want)
			fake := startFake(t, certificate, c.connection, c.handler)
			back := pointAt(t, fake.address, nil)
			defer func() {
				back()
				untilCalled(t, true)
			}()
			fake.untilReached(t)

			m := nodes.comeBack(t)

			t.Log(m)
			assert.Less(t, m.registered, delayed)
			assert.Less(t, m.deleted, delayed)
			if !c.restores {
				assert.Zero(t, m.restored, "the webhook is broken")
			}
			began := time.Now()
			back()
			untilCalled(t, true)
			healed = append(healed, time.Since(began))
		})
	}
	t.Logf("whole again, once the webhook answers, after %s at most", round(slices.Max(healed)))
	assert.Less(t, slices.Max(healed), settles)
}

func TestAWebhookThatIsGoneDelaysNoRegistrationAndCaptureCompletesTheNode(t *testing.T) {
	nodes := rememberNodes(t, "refused", 3, protected)
	require.NoError(t, nodekeep.StopWebhook())
	m := nodes.comeBack(t)
	assert.Zero(t, m.restored)
	for n := 1; n < attempts && m.soonest >= webhookTimeout; n++ { // a timeout would cost each of them as much, whenever it is
		m = nodes.comeBack(t)
		assert.Zero(t, m.restored)
	}
	began := time.Now()
	require.NoError(t, nodekeep.StartWebhook(t.Context()))
	t.Logf("%s; whole again %s after the start", m, round(time.Since(began)))
	assert.Less(t, m.soonest, webhookTimeout, "a refused connection is no timeout")

	rememberNodes(t, "refused-again", 3, ordinary).areRestored(t)
}
