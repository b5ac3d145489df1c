//go:build oldcore

package capture

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// minedRecords are records in memory. That of the Node "bad" panics when it is read.
type minedRecords struct{ store.Memory }

func (r *minedRecords) Get(node string) (store.Entry, error) {
	if node == "bad" {
		panic("record of bad")
	}
	return r.Memory.Get(node)
}

func valueOf(t *testing.T, counter prometheus.Counter) float64 {
	t.Helper()
	var metric dto.Metric
	require.NoError(t, counter.Write(&metric))
	return metric.GetCounter().GetValue()
}

// syncedBuffer is a log that is written and read at once.
type syncedBuffer struct {
	mu  sync.Mutex
	log bytes.Buffer
}

func (b *syncedBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Write(line)
}

func (b *syncedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.String()
}

func TestANodeWhoseWorkPanicsIsRetriedAndAllOthersAreRecorded(t *testing.T) {
	client := fake.NewClientset()
	for _, name := range []string{"bad", "good", "better"} {
		require.NoError(t, client.Tracker().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: "1", ResourceVersion: "1", Labels: map[string]string{"dedicated": "ci"},
		}}))
	}
	var log syncedBuffer
	records, metrics := &minedRecords{}, NewMetrics(prometheus.NewRegistry())
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	c, err := New(Options{
		Client: client, Records: records, Policy: policy.Default, Events: record.NewFakeRecorder(100), Metrics: metrics, Logger: logger,
		Guards: NewGuards(client, logger), Workers: 1,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, func() bool { return true }) }()
	c.Lead()
	for _, name := range []string{"good", "better"} {
		require.Eventually(t, func() bool {
			entry, err := records.Memory.Get(name)
			return err == nil && entry.Record.Items["dedicated"] == "ci"
		}, 30*time.Second, 5*time.Millisecond, name)
	}
	require.Eventually(t, func() bool { return valueOf(t, metrics.panics) >= 2 }, 30*time.Second, 5*time.Millisecond, "it is tried again")
	assert.GreaterOrEqual(t, valueOf(t, metrics.failures), 1.0)
	cancel()
	require.NoError(t, <-ended)
	assert.Contains(t, log.String(), `"level":"ERROR","msg":"work on one object panicked; please report this with the stack","work":"reconcile node","node":"bad"`)
	assert.Contains(t, log.String(), "minedRecords", "the log holds the stack")
	_, current, _ := c.sightings.counts()
	assert.Equal(t, 2, current, "a Node that is not reconciled is not current")
}

func TestATransformThatPanicsLeavesANodeOfWhichNothingIsConcluded(t *testing.T) {
	object := usualNode(7)
	panics := func(*Node) *slimNode { panic("cannot read") }
	slimmed := slimWith(panics, object)
	assert.Equal(t, object.Name, slimmed.name())
	assert.Equal(t, object.UID, slimmed.uid())
	assert.Equal(t, object.ResourceVersion, slimmed.GetObjectMeta().GetResourceVersion())
	require.ErrorContains(t, slimmed.fault(), "cannot read")

	s := newSweeping(t, 1, remembered("a", "10", labels{"k": "v"}))
	before, err := s.records.GetLive(t.Context(), "n1")
	require.NoError(t, err)
	unreadable := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "a", ResourceVersion: "20"}}
	require.True(t, s.sightings.lives(slimWith(panics, unreadable)))
	require.ErrorContains(t, s.process(t.Context(), "n1"), "cannot read")
	after, err := s.records.GetLive(t.Context(), "n1")
	require.NoError(t, err)
	assert.Equal(t, before, after, "labels that cannot be read were not removed")

	assert.True(t, s.sightings.lives(slimOf(node("a", "30", labels{"k": "w"}))), "the next state that can be read counts")
	require.NoError(t, s.process(t.Context(), "n1"))
	after, err = s.records.GetLive(t.Context(), "n1")
	require.NoError(t, err)
	assert.Equal(t, "w", after.Record.Items["k"])

	s.sightings.went(slimWith(panics, unreadable))
	require.NoError(t, s.process(t.Context(), "n1"), "a last state that cannot be read blocks nothing")
}

func TestAHandlerThatPanicsEndsNoProcess(t *testing.T) {
	var handlers cache.ResourceEventHandler
	exploding := func(string) { panic("queue") }
	panicked := map[string]int{}
	_, err := feed(handlerOf{handler: &handlers}, newSweeping(t, 1).sightings, exploding, func(node string, err error) {
		require.ErrorContains(t, err, "queue")
		panicked[node]++
	})
	require.NoError(t, err)
	first, second := slimOf(node("a", "10", nil)), slimOf(node("a", "20", labels{"k": "v"}))
	handlers.OnAdd(first, true)
	handlers.OnUpdate(first, second)
	handlers.OnDelete(cache.DeletedFinalStateUnknown{Key: "n1", Obj: second})
	assert.Equal(t, map[string]int{"n1": 3}, panicked)
}

// sweptRecords are records of which one panics when it is read live, and one when it is read from memory.
type sweptRecords struct{ *hookedRecords }

func (r sweptRecords) Get(node string) (store.Entry, error) {
	if node == "bad-in-memory" {
		panic("record")
	}
	return r.hookedRecords.Get(node)
}

func (r sweptRecords) GetLive(ctx context.Context, node string) (store.Entry, error) {
	if node == "bad-live" {
		panic("record")
	}
	return r.hookedRecords.GetLive(ctx, node)
}

func TestARecordThatPanicsDoesNotEndTheSweepOfTheOthers(t *testing.T) {
	s := newSweeping(t, 1, goneRecord("bad-live", 2*monthAgo), goneRecord("bad-in-memory", monthAgo), goneRecord("old", monthAgo))
	s.Records = sweptRecords{s.records}
	s.sweep()
	s.left("bad-live", "bad-in-memory")
	assert.Equal(t, 2, int(valueOf(t, s.Metrics.panics)))
}
