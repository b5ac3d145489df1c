package faults

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pace is how long a kubelet of the load waits between two registrations.
const pace = 10 * time.Millisecond

// webhookTimeout is timeoutSeconds of both webhooks. What drops or refuses a call has it fail open at once. A call that took as
// long as this may have failed open because the machine stood still, which nodekeep may not be blamed for.
const webhookTimeout = time.Second

// load is what kubelets that register their remembered Nodes again and again went through.
type load struct {
	kubelets int

	mu            sync.Mutex
	registrations int
	missed        []string // CREATEs that were stored without what is remembered, sooner than after webhookTimeout
	waiting       int      // of these, the gated ones
	failed        []string // DELETEs and CREATEs that the API server refused
	slowest       time.Duration

	lateCreations, lateDeletions int // those that took webhookTimeout or longer
	excused                      int // of these CREATEs, the ones that were stored without what is remembered
}

// startLoad has so many kubelets register at once, from now on; the function that it returns ends that.
func startLoad(t testing.TB, prefix string, kubeletCount int, want map[string]string) (stop func() *load) {
	t.Helper()
	nodes := rememberNodes(t, prefix, kubeletCount, want)
	l := &load{kubelets: kubeletCount}
	ctx, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, name := range nodes.names {
		client := kubelet(t, name)
		all.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				err := nodekeep.Admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{})
				took := time.Since(began)
				l.note(func() {
					if err != nil {
						l.failed = append(l.failed, err.Error())
					}
					if took >= webhookTimeout {
						l.lateDeletions++
					}
				})
				began = time.Now()
				back, err := client.CoreV1().Nodes().Create(t.Context(), registration(name, nil), metav1.CreateOptions{})
				took = time.Since(began)
				l.note(func() {
					l.registrations++
					l.slowest = max(l.slowest, took)
					late := took >= webhookTimeout
					if late {
						l.lateCreations++
					}
					switch {
					case err != nil:
						l.failed = append(l.failed, err.Error())
					case late && gated(back):
						l.excused++
					case !hasAll(back.Labels, want):
						l.missed = append(l.missed, fmt.Sprintf("%s after %s: %v", name, took, back.Labels))
						if gated(back) {
							l.waiting++
						}
					case gated(back):
						l.missed = append(l.missed, fmt.Sprintf("%s after %s: gated", name, took))
						l.waiting++
					}
				})
				time.Sleep(pace)
			}
		})
	}
	ended := sync.OnceFunc(func() { end(); all.Wait() })
	t.Cleanup(ended)
	return func() *load { ended(); return l }
}

func (l *load) note(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *load) String() string {
	return fmt.Sprintf("%d registrations, %d missed restores, %d excused, %d refused requests, %d CREATEs and %d DELETEs of %s or longer, slowest %s",
		l.registrations, len(l.missed), l.excused, len(l.failed), l.lateCreations, l.lateDeletions, webhookTimeout, round(l.slowest))
}

// forgiven is how many calls may fail open late: a machine that stands still costs each kubelet one, and may do so twice. Where it
// is more, calls hang.
func (l *load) forgiven() int { return 2 * l.kubelets }

// whole asserts that every registration succeeded and had all labels in the CREATE, but for what is forgiven.
func (l *load) whole(t testing.TB) {
	t.Helper()
	assert.Empty(t, l.failed)
	assert.Empty(t, l.missed)
	assert.NotZero(t, l.registrations)
	assert.LessOrEqual(t, l.excused, l.forgiven())
}

// calls are the API server's own counts about the webhook that restores and the one that sees deletions.
type calls struct{ creations, creationsFailed, deletions, deletionsFailed int }

func webhookCalls(t testing.TB) calls {
	t.Helper()
	stream, err := nodekeep.Admin.RESTClient().Get().AbsPath("/metrics").Stream(t.Context())
	require.NoError(t, err)
	defer stream.Close()
	body, err := io.ReadAll(stream)
	require.NoError(t, err)
	sum := func(metric, webhook string) (total int) {
		for _, line := range regexp.MustCompile(`(?m)^apiserver_admission_webhook_`+metric+`\{[^}]*name="`+webhook+`"[^}]*\} (\S+)$`).FindAllSubmatch(body, -1) {
			value, err := strconv.ParseFloat(string(line[1]), 64)
			require.NoError(t, err)
			total += int(value)
		}
		return total
	}
	const creation, deletion = "restore.nodekeep.dev", "capture.nodekeep.dev"
	return calls{
		creations: sum("request_total", creation), creationsFailed: sum("fail_open_count", creation),
		deletions: sum("request_total", deletion), deletionsFailed: sum("fail_open_count", deletion),
	}
}

func (c calls) since(before calls) calls {
	return calls{
		c.creations - before.creations, c.creationsFailed - before.creationsFailed,
		c.deletions - before.deletions, c.deletionsFailed - before.deletionsFailed,
	}
}

func (c calls) String() string {
	return fmt.Sprintf("%d calls at CREATE, %d failed open, %d at DELETE, %d failed open", c.creations, c.creationsFailed, c.deletions, c.deletionsFailed)
}

// served asserts that no call was dropped: none failed open but those that took as long as a call may.
func (c calls) served(t testing.TB, l *load) {
	t.Helper()
	assert.NotZero(t, c.creations)
	assert.LessOrEqual(t, c.creationsFailed, l.lateCreations)
	assert.LessOrEqual(t, c.deletionsFailed, l.lateDeletions)
	assert.LessOrEqual(t, c.creationsFailed+c.deletionsFailed, l.forgiven())
}
