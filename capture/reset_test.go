//go:build oldcore

package capture

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"nodekeep.dev/nodekeep/store"
)

// resetting is a leading capture with one record, and a Node of the version that the API server has.
type resetting struct {
	*sweeping
	events *record.FakeRecorder
}

func newResetting(t *testing.T, remembers *store.Record, uid types.UID, version string) *resetting {
	t.Helper()
	s := newSweeping(t, 1, remembers)
	s.aheadFor = aheadFor
	events := record.NewFakeRecorder(10)
	s.Events = events
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	t.Cleanup(queue.ShutDown)
	s.queue = queue
	require.NoError(t, s.client.Tracker().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: uid, ResourceVersion: version}}))
	return &resetting{sweeping: s, events: events}
}

// look has capture look at the Node whenever it wants to, for a time, and returns how often it has read the Node since the start.
func (r *resetting) look(period time.Duration) (reads int) {
	r.t.Helper()
	for end := time.Now().Add(period); !time.Now().After(end); time.Sleep(100 * time.Millisecond) {
		synctest.Wait()
		for range r.queue.Len() {
			name, _ := r.queue.Get()
			require.NoError(r.t, r.process(r.t.Context(), name))
			r.queue.Done(name)
		}
	}
	for _, action := range r.client.Actions() {
		if action.Matches("get", "nodes") {
			reads++
		}
	}
	return reads
}

func (r *resetting) seen(node *Node) {
	if r.sightings.lives(slimOf(node)) {
		r.queue.Add(node.Name)
	}
}

func TestARecordOfAnotherClusterIsResetOnceAndReported(t *testing.T) {
	for name, prev := range map[string]*store.Record{
		"of another object":   remembered("elsewhere", "999999999", labels{"k": "v"}),
		"of this very object": remembered("b", "999999999", labels{"k": "v"}),
		"a little ahead":      remembered("elsewhere", "21", labels{"k": "v"}),
		"also of later objects": remembered("elsewhere", "10", labels{"k": "v"}, func(r *store.Record) {
			r.Later, r.LaterVersions = map[string]*string{"gone": nil}, map[string]string{"gone": "30"}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newResetting(t, prev, "b", "20")
				r.seen(node("b", "20", labels{"k": "v"}))
				assert.Zero(t, r.look(aheadFor-time.Second), "the watch has time to bring what is later")
				assert.Equal(t, 1, r.look(time.Hour))
				entry, err := r.records.GetLive(t.Context(), "n1")
				require.NoError(t, err)
				assert.Equal(t, types.UID("b"), entry.Record.UID)
				assert.Equal(t, "20", entry.Record.NodeResourceVersion)
				assert.Equal(t, labels{"k": "v"}, entry.Record.Remembered())
				require.Len(t, r.events.Events, 1)
				assert.True(t, strings.HasPrefix(<-r.events.Events, "Warning RecordReset "))

				r.seen(node("b", "25", labels{"k": "v2"}))
				assert.Equal(t, 1, r.look(time.Hour), "what follows is as with any record")
				entry, err = r.records.GetLive(t.Context(), "n1")
				require.NoError(t, err)
				assert.Equal(t, labels{"k": "v2"}, entry.Record.Items)
			})
		})
	}
}

func TestARecordThatIsRightIsNotResetWhileTheWatchIsLate(t *testing.T) {
	for name, live := range map[string]struct {
		uid     types.UID
		version string
	}{
		"the Node has moved on":           {"b", "30"},
		"another object has the name now": {"c", "30"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newResetting(t, remembered(live.uid, "30", labels{"k": "v"}), live.uid, live.version)
				r.seen(node("b", "20", labels{"k": "v"}))
				assert.LessOrEqual(t, r.look(time.Minute), int(time.Minute/aheadFor), "the reads are bounded")
				entry, err := r.records.GetLive(t.Context(), "n1")
				require.NoError(t, err)
				assert.Equal(t, "30", entry.Record.NodeResourceVersion)
				assert.Empty(t, r.events.Events)
			})
		})
	}
}

func TestAUsualNodeIsNotReadBecauseOfItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResetting(t, remembered("a", "10", labels{"k": "v"}), "b", "20")
		r.seen(node("b", "20", labels{"k": "v"}))
		for version := range 50 {
			r.seen(node("b", "2"+string(rune('1'+version%9)), labels{"k": "v"}))
			r.queue.Add("n1")
			assert.Zero(t, r.look(time.Second))
		}
	})
}
