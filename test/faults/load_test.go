package faults

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

// pace is how long a kubelet of the load waits between two registrations.
const pace = 10 * time.Millisecond

// webhookTimeout is timeoutSeconds of both webhooks, but in tests that ask for shippedTimeout. What drops or refuses a call has it fail
// open at once. A call that took as long as this may have failed open because the machine stood still, which nodekeep may not be blamed for.
const webhookTimeout = harness.Patient * time.Second

// load is what kubelets that register their recorded Nodes again and again went through.
type load struct {
	kubelets int

	mu     sync.Mutex
	took   []time.Duration // by registrations
	failed []string        // DELETEs and CREATEs that the API server refused
	missed []string        // CREATEs that were stored without what is recorded, sooner than after webhookTimeout

	lateCreations, lateDeletions int // those that took webhookTimeout or longer
	excused                      int // of these CREATEs, the gated ones
}

// repeat has each kubelet register its Node so many times, and longer while goOn says so.
func (r returning) repeat(t testing.TB, times int, goOn func() bool) *load {
	t.Helper()
	l := &load{kubelets: len(r.names)}
	harness.Parallel(r.names, len(r.names), func(name string) {
		client := nodekeep.Kubelet(t, name)
		for n := 0; n < times || goOn(); n++ {
			began := time.Now()
			err := nodekeep.Admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{})
			deleted, began := time.Since(began), time.Now()
			returned, failed := client.CoreV1().Nodes().Create(t.Context(), harness.Registration(name), metav1.CreateOptions{})
			created := time.Since(began)
			l.mu.Lock()
			l.took = append(l.took, created)
			late := created >= webhookTimeout
			if late {
				l.lateCreations++
			}
			if deleted >= webhookTimeout {
				l.lateDeletions++
			}
			switch {
			case err != nil:
				l.failed = append(l.failed, err.Error())
			case failed != nil:
				l.failed = append(l.failed, failed.Error())
			case late && harness.Gated(returned):
				l.excused++
			case harness.Gated(returned) || !harness.HasAll(returned.Labels, r.want):
				l.missed = append(l.missed, fmt.Sprintf("%s after %s: gated %t, %v", name, created, harness.Gated(returned), returned.Labels))
			}
			l.mu.Unlock()
			time.Sleep(pace)
		}
	})
	return l
}

func untrue() bool { return false }

// startLoad has so many kubelets register at once, from now on; the function that it returns ends that.
func startLoad(t testing.TB, prefix string, kubelets int, want map[string]string) (stop func() *load) {
	t.Helper()
	nodes := recordedNodes(t, prefix, kubelets, want)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan *load, 1)
	go func() { ended <- nodes.repeat(t, 0, func() bool { return ctx.Err() == nil }) }()
	stop = sync.OnceValue(func() *load { end(); return <-ended })
	t.Cleanup(func() { stop() })
	return stop
}

func (l *load) add(extra *load) {
	l.kubelets = extra.kubelets
	l.took, l.failed, l.missed = append(l.took, extra.took...), append(l.failed, extra.failed...), append(l.missed, extra.missed...)
	l.lateCreations, l.lateDeletions, l.excused = l.lateCreations+extra.lateCreations, l.lateDeletions+extra.lateDeletions, l.excused+extra.excused
}

func (l *load) String() string {
	return fmt.Sprintf("%d registrations, %d missed restores, %d excused, %d refused requests, %d CREATEs and %d DELETEs of %s or longer, p99 %s, slowest %s",
		len(l.took), len(l.missed), l.excused, len(l.failed), l.lateCreations, l.lateDeletions, webhookTimeout, round(p99(l.took)), round(slices.Max(l.took)))
}

// forgiven returns how many calls may fail open late: a machine that stands still costs each kubelet one, and may do so twice. Where it
// is more, calls hang.
func (l *load) forgiven() int { return 2 * l.kubelets }

// whole asserts that every registration succeeded and had all labels in the CREATE, but for those that took as long as a call may.
func (l *load) whole(t testing.TB) {
	t.Helper()
	t.Log(l)
	assert.Empty(t, l.failed)
	assert.Empty(t, l.missed)
	assert.NotEmpty(t, l.took)
}

// calls are the API server's own counts about the webhook that restores and the one that sees deletions.
type calls struct{ creations, creationsFailed, deletions, deletionsFailed int }

func webhookCalls(t testing.TB) calls {
	t.Helper()
	page := nodekeep.APIServerSeries(t)
	sum := func(series, webhook string) int {
		return int(page.Sum("apiserver_admission_webhook_"+series, `name="`+webhook+`"`))
	}
	const creation, deletion = "restore.nodekeep.dev", "deletion.nodekeep.dev"
	return calls{sum("request_total", creation), sum("fail_open_count", creation), sum("request_total", deletion), sum("fail_open_count", deletion)}
}

func (c calls) minus(prev calls) calls {
	return calls{
		c.creations - prev.creations, c.creationsFailed - prev.creationsFailed,
		c.deletions - prev.deletions, c.deletionsFailed - prev.deletionsFailed,
	}
}

func (c calls) String() string {
	return fmt.Sprintf("%d calls at CREATE, %d failed open, %d at DELETE, %d failed open", c.creations, c.creationsFailed, c.deletions, c.deletionsFailed)
}

// served asserts that no call was dropped: none failed open but those that took as long as a call may, and these are few.
func (c calls) served(t testing.TB, l *load) {
	t.Helper()
	t.Log(c)
	assert.NotZero(t, c.creations)
	assert.LessOrEqual(t, c.creationsFailed, l.lateCreations)
	assert.LessOrEqual(t, c.deletionsFailed, l.lateDeletions)
	assert.LessOrEqual(t, c.creationsFailed+c.deletionsFailed, l.forgiven())
	assert.LessOrEqual(t, l.excused, l.forgiven())
}
