//go:build oldcore

package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// sweeping is a controller that leads and has heard of nothing, over records in memory and a client with Nodes.
type sweeping struct {
	*Controller
	t        *testing.T
	records  *hookedRecords
	client   *fake.Clientset
	registry *prometheus.Registry
	waits    int
}

// hookedRecords are records in memory; before runs ahead of a removal, after behind it.
type hookedRecords struct {
	store.Memory
	before, after, afterRead func()
	failing                  error
}

func (r *hookedRecords) GetLive(ctx context.Context, node string) (store.Entry, error) {
	entry, err := r.Memory.GetLive(ctx, node)
	if r.afterRead != nil {
		r.afterRead()
	}
	return entry, errors.Join(err, ctx.Err())
}

func (r *hookedRecords) Delete(ctx context.Context, node, version string) error {
	if r.before != nil {
		r.before()
	}
	if r.failing != nil {
		return r.failing
	}
	err := r.Memory.Delete(ctx, node, version)
	if r.after != nil {
		r.after()
	}
	return errors.Join(err, ctx.Err())
}

const monthAgo = -800 * time.Hour

func newSweeping(t *testing.T, fraction float64, records ...*store.Record) *sweeping {
	t.Helper()
	s := &sweeping{t: t, records: &hookedRecords{}, client: fake.NewClientset(), registry: prometheus.NewRegistry()}
	for _, record := range records {
		_, err := s.records.Put(t.Context(), *record, "")
		require.NoError(t, err)
	}
	s.Controller = &Controller{
		Options: Options{
			Client: s.client, Records: s.records, Policy: policy.Default, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Guards: &Guards{}, Metrics: NewMetrics(s.registry),
			Now:   func() time.Time { return now },
			Sweep: Sweep{Fraction: fraction, Remover: Removal{Records: s.records, Client: s.client}, Metrics: NewSweepMetrics(s.registry)},
		},
		sightings: newSightings(func([]corev1.Taint) bool { return false }, func(time.Duration) {}, time.Now), refusals: newRefusals(), reported: newReported(),
		brake: newBrake(longestPause), coalescer: newCoalescer(recordInterval),
	}
	s.leading.Store(true)
	return s
}

// sweep is one sweep that never waits.
func (s *sweeping) sweep() {
	s.t.Helper()
	s.Controller.sweep(s.t.Context(), func(context.Context) error { s.waits++; return nil })
}

func (s *sweeping) register(node string) {
	s.t.Helper()
	require.NoError(s.t, s.client.Tracker().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
}

// fails makes the API server answer a look for a Node with an error, from the given call on.
func (s *sweeping) fails(from int, err error) {
	calls := 0
	s.client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		calls++
		return calls >= from, nil, err
	})
}

// left asserts which records there are, and counted what became of those that were looked at.
func (s *sweeping) left(nodes ...string) {
	s.t.Helper()
	assert.ElementsMatch(s.t, nodes, s.records.Nodes())
}

func (s *sweeping) counted(want map[Outcome]int) {
	s.t.Helper()
	families, err := s.registry.Gather()
	require.NoError(s.t, err)
	got, series := map[Outcome]int{}, 0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() != "nodekeep_capture_records_collected_total" {
				continue
			}
			series++
			if count := int(metric.GetCounter().GetValue()); count > 0 {
				got[Outcome(metric.GetLabel()[0].GetValue())] = count
			}
		}
	}
	assert.Equal(s.t, want, got)
	assert.Equal(s.t, 5, series, "all are there from the start")
}

func goneRecord(node string, since time.Duration) *store.Record {
	return remembered("1", "5", labels{"a": "1"}, goneAt(now.Add(since)), func(r *store.Record) { r.Node = node })
}

func TestARecordIsCollectedOnceItsNodeHasBeenGoneForTheRetentionAndNotBefore(t *testing.T) {
	s := newSweeping(t, 1, goneRecord("n1", 0), goneRecord("n2", -time.Hour), remembered("1", "5", labels{"a": "1"}, func(r *store.Record) { r.Node = "n3" }))
	clock := now
	s.Now = func() time.Time { return clock }
	s.sweep()
	clock = now.Add(719*time.Hour - time.Second)
	s.sweep()
	s.left("n1", "n2", "n3")
	clock = now.Add(719*time.Hour + time.Second)
	s.sweep()
	s.left("n1", "n3")
	clock = now.Add(10_000 * time.Hour)
	s.sweep()
	s.left("n3")
	s.counted(map[Outcome]int{Collected: 2})
}

func TestARecordThatHoldsNothingIsCollectedSoonAlsoWhereRecordsAreKeptForEver(t *testing.T) {
	empty := goneRecord("n1", -3*time.Minute)
	empty.Items = nil
	s := newSweeping(t, 1, empty, goneRecord("n2", 100*monthAgo))
	forEver, err := policy.Load([]byte("apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nretention: 0\n"), policy.DefaultGate)
	require.NoError(t, err)
	s.Policy = func() policy.Policy { return forEver }
	s.sweep()
	s.left("n2")
}

func TestTheRecordOfALiveNodeIsNeverCollected(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(s *sweeping)
		want    map[Outcome]int
	}{
		"the watch has not brought the Node yet": {func(s *sweeping) { s.register("n1") }, map[Outcome]int{Kept: 1}},
		"the watch has brought the Node, and the API server does not find it": {func(s *sweeping) {
			s.sightings.lives(slimOf(&Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "2"}}))
		}, map[Outcome]int{}},
		"the end of a later object has not been dealt with": {func(s *sweeping) {
			s.sightings.went(slimOf(&Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "2"}}))
		}, map[Outcome]int{}},
		"the watch brings the Node while the record is read": {func(s *sweeping) {
			s.records.afterRead = func() { s.sightings.lives(slimOf(&Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "2"}})) }
		}, map[Outcome]int{Kept: 1}},
		"the Node is recorded a moment before the removal": {func(s *sweeping) {
			s.records.before = func() {
				s.register("n1")
				entry, err := s.records.Get("n1")
				require.NoError(s.t, err)
				entry.Record.UID, entry.Record.DeletedAt = "2", nil
				_, err = s.records.Put(s.t.Context(), entry.Record, entry.Version)
				require.NoError(s.t, err)
			}
		}, map[Outcome]int{Kept: 1}},
		"the Node registers a moment before the removal": {func(s *sweeping) {
			s.records.before = func() { s.register("n1") }
		}, map[Outcome]int{PutBack: 1}},
		"the Node registers a moment after the removal": {func(s *sweeping) {
			s.records.after = func() { s.register("n1") }
		}, map[Outcome]int{PutBack: 1}},
		"whether the Node is there cannot be told after the removal": {func(s *sweeping) {
			s.fails(2, apierrors.NewInternalError(errors.New("a bad moment")))
		}, map[Outcome]int{PutBack: 1}},
		"the answer to the removal is lost, and the Node registers": {func(s *sweeping) {
			s.records.before = func() {
				entry, err := s.records.Get("n1")
				require.NoError(s.t, err)
				require.NoError(s.t, s.records.Memory.Delete(s.t.Context(), "n1", entry.Version))
				s.register("n1")
			}
			s.records.failing = errors.New("no answer")
		}, map[Outcome]int{PutBack: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSweeping(t, 1, goneRecord("n1", monthAgo))
			c.arrange(s)
			s.sweep()
			s.left("n1")
			entry, err := s.records.Get("n1")
			require.NoError(t, err)
			assert.Equal(t, labels{"a": "1"}, entry.Record.Items, "nothing of it is lost")
			s.counted(c.want)
		})
	}
}

func TestASweepCollectsTheOldestFirstAndNoMoreThanItsFraction(t *testing.T) {
	var records []*store.Record
	for n := range 30 {
		records = append(records, goneRecord(fmt.Sprintf("n%02d", n), monthAgo-time.Duration(n)*time.Hour))
	}
	s := newSweeping(t, .1, records...)
	s.sweep()
	assert.Len(t, s.records.Nodes(), 27)
	for _, oldest := range []string{"n27", "n28", "n29"} {
		assert.NotContains(t, s.records.Nodes(), oldest)
	}
	assert.Equal(t, 3, s.waits, "each keeps to the pace")
	s.sweep()
	assert.Len(t, s.records.Nodes(), 25, "a tenth of 27 is 2")
	for range 100 {
		s.sweep()
	}
	s.left()
}

func TestAnAPIServerThatErrsEndsTheSweepAndNothingIsCollected(t *testing.T) {
	proxys := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", corev1.Resource("nodes"), "n1", "404 page not found", 0, true)
	require.True(t, apierrors.IsNotFound(proxys))
	for name, err := range map[string]error{
		"500":                   apierrors.NewInternalError(errors.New("a bad moment")),
		"429":                   apierrors.NewTooManyRequests("not now", 1),
		"403":                   apierrors.NewForbidden(corev1.Resource("nodes"), "n1", errors.New("not yours")),
		"no answer":             context.DeadlineExceeded,
		"404 of another server": proxys,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSweeping(t, 1, goneRecord("n1", monthAgo), goneRecord("n2", monthAgo), goneRecord("n3", monthAgo))
			s.fails(1, err)
			s.sweep()
			s.left("n1", "n2", "n3")
			s.counted(map[Outcome]int{Failed: 1})
			s.client.ReactionChain = s.client.ReactionChain[1:]
			s.sweep()
			s.left()
		})
	}
	t.Run("a removal that is refused", func(t *testing.T) {
		s := newSweeping(t, 1, goneRecord("n1", monthAgo), goneRecord("n2", monthAgo))
		s.records.failing = errors.New("not yours")
		s.sweep()
		s.left("n1", "n2")
		s.counted(map[Outcome]int{Failed: 1})
	})
}

func TestARehearsalCollectsNothing(t *testing.T) {
	s := newSweeping(t, 1, goneRecord("n1", monthAgo), goneRecord("n2", monthAgo), goneRecord("n3", monthAgo))
	s.Sweep.Remover = Rehearsal{}
	s.register("n2")
	s.sweep()
	s.left("n1", "n2", "n3")
	s.counted(map[Outcome]int{Rehearsed: 2, Kept: 1})
}

func TestOnlyTheLeaderSweeps(t *testing.T) {
	s := newSweeping(t, 1, goneRecord("n1", monthAgo), goneRecord("n2", monthAgo))
	s.leading.Store(false)
	s.sweep()
	s.left("n1", "n2")
	s.leading.Store(true)
	s.records.after = func() { s.leading.Store(false) }
	s.sweep()
	assert.Len(t, s.records.Nodes(), 1, "it leads no longer")
}

func TestWhatCannotBeReadIsNotCollected(t *testing.T) {
	s := newSweeping(t, 1, goneRecord("n1", monthAgo))
	s.records.Tamper("n1", []byte(`{"version": 1, "node": "n2", "deletedAt": "2020-01-01T00:00:00Z"}`))
	s.sweep()
	_, err := s.records.Get("n1")
	require.ErrorIs(t, err, store.ErrUnreadable)
	s.counted(map[Outcome]int{})
}

func TestNoPlanIsMadeForANameWhileItsRecordIsCollected(t *testing.T) {
	var names turns
	release := names.take("n1")
	names.take("n2")()
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		names.take("n1")()
	}()
	select {
	case <-taken:
		t.Fatal("two had their turn at once")
	case <-time.After(50 * time.Millisecond):
	}
	release()
	<-taken
	assert.Empty(t, names.taken)
}

func TestAnEndThatAStandbyHoldsDoesNotBringBackARecordWhoseRetentionIsOver(t *testing.T) {
	s := newSweeping(t, 1, goneRecord("n1", monthAgo))
	s.leading.Store(false)
	s.sightings.went(slimOf(node("1", "6", labels{"a": "1"}))) // the leader has only a list's word, at version 5
	require.NoError(t, s.process(t.Context(), "n1"))
	require.True(t, s.sightings.knows("n1"), "it may have to be written yet")

	s.records.Remove("n1") // the leader has swept
	require.NoError(t, s.process(t.Context(), "n1"))
	assert.False(t, s.sightings.knows("n1"))
	s.leading.Store(true)
	require.NoError(t, s.process(t.Context(), "n1"))
	s.left()
}

func TestAnEndThatCameAfterTheRecordCountsWhenTheRecordIsGone(t *testing.T) {
	s := newSweeping(t, 1, goneRecord("n1", monthAgo))
	s.leading.Store(false)
	s.sightings.lives(slimOf(node("2", "9", labels{"b": "2"}))) // the record was removed a moment before, and that is not heard yet
	require.NoError(t, s.process(t.Context(), "n1"))
	s.records.Remove("n1")
	s.sightings.went(slimOf(node("2", "10", labels{"b": "2"})))
	s.leading.Store(true)
	require.NoError(t, s.process(t.Context(), "n1"))
	entry, err := s.records.Get("n1")
	require.NoError(t, err)
	assert.Equal(t, labels{"b": "2"}, entry.Record.Items)
}

func TestASweepThatIsToldToStopSaysWhatItDid(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(s *sweeping, stop func())
		want    map[Outcome]int
		left    []string
		line    string
	}{
		"while a record is removed": {
			arrange: func(s *sweeping, stop func()) { s.records.before = stop },
			want:    map[Outcome]int{Collected: 1}, left: []string{"n2"}, line: "due=2 removed=1",
		},
		"once a record is removed": {
			arrange: func(s *sweeping, stop func()) { s.records.after = stop },
			want:    map[Outcome]int{Collected: 1}, left: []string{"n2"}, line: "due=2 removed=1",
		},
		"while a record is read": {
			arrange: func(s *sweeping, stop func()) { s.records.afterRead = stop },
			want:    map[Outcome]int{}, left: []string{"n1", "n2"}, line: "due=2 removed=0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSweeping(t, 1, goneRecord("n1", monthAgo), goneRecord("n2", monthAgo))
			var log strings.Builder
			s.Logger = slog.New(slog.NewTextHandler(&log, nil))
			ctx, stop := context.WithCancel(t.Context())
			c.arrange(s, stop)
			s.Controller.sweep(ctx, func(ctx context.Context) error { return ctx.Err() })
			s.left(c.left...)
			s.counted(c.want)
			assert.Contains(t, log.String(), `level=INFO msg="records swept" records=2 gone=2 `+c.line)
			assert.NotContains(t, log.String(), "level=WARN", "being told to stop is no error")
		})
	}
}

func TestSweepsKeepToTheirPace(t *testing.T) {
	var records []*store.Record
	for n := range 5 {
		records = append(records, goneRecord(fmt.Sprintf("n%d", n), monthAgo))
	}
	s := newSweeping(t, 1, records...)
	s.Sweep.Every = time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	started := time.Now()
	go func() {
		defer close(over)
		s.sweepFromTimeToTime(ctx)
	}()
	require.Eventually(t, func() bool { return len(s.records.Nodes()) == 0 }, 20*time.Second, 5*time.Millisecond)
	assert.Greater(t, time.Since(started), 4*time.Second/looksPerSecond-50*time.Millisecond)
	stop()
	<-over
}

func TestNothingIsSweptBeforeTheCachesAreWarm(t *testing.T) {
	for name, c := range map[string]struct{ nodes, records, swept bool }{
		"Nodes cannot be listed":    {nodes: false, records: true},
		"records cannot be listed":  {nodes: true, records: false},
		"both are there, and swept": {nodes: true, records: true, swept: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSweeping(t, 1, goneRecord("n1", monthAgo))
			if !c.nodes {
				for _, verb := range []string{"list", "watch"} {
					s.client.PrependReactor(verb, "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
						return true, nil, apierrors.NewInternalError(errors.New("a bad moment"))
					})
				}
				s.client.WatchReactionChain = nil
			}
			options := s.Options
			options.Sweep.Every, options.Workers = time.Millisecond, 1
			options.Guards, options.Metrics = NewGuards(s.client, options.Logger), NewMetrics(prometheus.NewRegistry())
			controller, err := New(options)
			require.NoError(t, err)
			controller.Lead()
			ctx, stop := context.WithCancel(t.Context())
			over := make(chan struct{})
			go func() {
				defer close(over)
				assert.NoError(t, controller.Run(ctx, func() bool { return c.records }))
			}()
			if c.swept {
				require.Eventually(t, func() bool { return len(s.records.Nodes()) == 0 }, 20*time.Second, 5*time.Millisecond)
			} else {
				time.Sleep(300 * time.Millisecond)
				s.left("n1")
			}
			stop()
			<-over
		})
	}
}
