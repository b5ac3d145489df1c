package gc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
	"k8s.io/client-go/tools/cache"

	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/storetest"
)

// sweeping is a sweeper of a process that leads and has observed no Node, over records in memory and a client with Nodes.
type sweeping struct {
	*Sweeper
	t        *testing.T
	records  *hookedRecords
	client   *fake.Clientset
	registry *prometheus.Registry
	waits    int

	// What the process knows of Nodes.
	leads     bool
	known     map[string]bool
	exclusive map[string]int // names that are worked on, and how often they were
	panics    int
	stopgap   bool
}

func (s *sweeping) Leading() bool           { return s.leads }
func (s *sweeping) Tracks(node string) bool { return s.known[node] }

func (s *sweeping) LockNode(node string) (release func()) {
	s.exclusive[node]++
	s.exclusive[""]++
	return func() { s.exclusive[""]-- }
}

func (s *sweeping) CallRecovering(_, _ string, fn func() error) error {
	err := contain.Call(fn)
	if _, panicked := contain.IsPanic(err); panicked {
		s.panics++
	}
	return err
}

// hookedRecords are records in memory; before runs ahead of a removal, after behind it.
type hookedRecords struct {
	storetest.Memory
	hookBefore, hookAfter, afterRead func()
	failing                          error
	panicInMemory, panicLive         string // the Node whose record panics
}

func (r *hookedRecords) Get(node string) (store.Entry, error) {
	if node == r.panicInMemory {
		panic("record")
	}
	return r.Memory.Get(node)
}

func (r *hookedRecords) GetFromAPI(ctx context.Context, node string) (store.Entry, error) {
	if node == r.panicLive {
		panic("record")
	}
	entry, err := r.Memory.GetFromAPI(ctx, node)
	if r.afterRead != nil {
		r.afterRead()
	}
	return entry, errors.Join(err, ctx.Err())
}

func (r *hookedRecords) Delete(ctx context.Context, node, version string) error {
	if r.hookBefore != nil {
		r.hookBefore()
	}
	if r.failing != nil {
		return r.failing
	}
	err := r.Memory.Delete(ctx, node, version)
	if r.hookAfter != nil {
		r.hookAfter()
	}
	return errors.Join(err, ctx.Err())
}

const monthAgo = 800 * time.Hour

func newSweeping(t *testing.T, fraction float64, records ...record.Record) *sweeping {
	t.Helper()
	s := &sweeping{
		t: t, records: &hookedRecords{}, client: fake.NewClientset(), registry: prometheus.NewRegistry(),
		leads: true, known: map[string]bool{}, exclusive: map[string]int{},
	}
	for _, r := range records {
		_, err := s.records.Put(t.Context(), r, "")
		require.NoError(t, err)
	}
	s.Sweeper = New(Options{
		Records: s.records, Controller: s, Policy: policy.Default, PolicyIsFallback: func() bool { return s.stopgap }, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return now }, Metrics: NewMetrics(s.registry), Fraction: fraction, Remover: Remover{Records: s.records, Client: s.client},
	})
	return s
}

// sweeps is one sweep that never waits.
func (s *sweeping) sweeps() {
	s.t.Helper()
	s.Sweep(s.t.Context(), func(context.Context) error { s.waits++; return nil })
	assert.Zero(s.t, s.exclusive[""], "each name is released")
}

// runs sweeps from time to time until stop is called.
func (s *sweeping) runs(synced ...cache.InformerSynced) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx, synced...)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (s *sweeping) register(node string) {
	s.t.Helper()
	require.NoError(s.t, s.client.Tracker().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
}

// fails has the API server answer each GET of a Node with an error, from the given call on.
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
	assert.ElementsMatch(s.t, nodes, s.records.NodeNames())
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

func goneRecord(node string, base time.Duration) record.Record {
	return remembered(labels{"a": "1"}, goneFor(base), func(r *record.Record) { r.Node = node })
}

func TestNoRecordIsCollectedByDefaultsThatAreInForceForWantOfAPolicy(t *testing.T) {
	s := newSweeping(t, 1, goneRecord("n1", monthAgo))
	s.stopgap = true
	s.sweeps()
	s.left("n1")
	s.stopgap = false
	s.sweeps()
	s.left()
}

func TestARecordIsCollectedOnceItsNodeHasBeenGoneForTheRetentionAndNotBefore(t *testing.T) {
	s := newSweeping(t, 1, goneRecord("n1", 0), goneRecord("n2", time.Hour), remembered(labels{"a": "1"}, func(r *record.Record) { r.Node = "n3" }))
	clock := now
	s.Now = func() time.Time { return clock }
	s.sweeps()
	clock = now.Add(719*time.Hour - time.Second)
	s.sweeps()
	s.left("n1", "n2", "n3")
	clock = now.Add(719*time.Hour + time.Second)
	s.sweeps()
	s.left("n1", "n3")
	clock = now.Add(10_000 * time.Hour)
	s.sweeps()
	s.left("n3")
	s.counted(map[Outcome]int{Collected: 2})
	assert.Equal(t, map[string]int{"": 0, "n1": 1, "n2": 1}, s.exclusive, "no worker was at it meanwhile")
}

func TestARecordThatHoldsNothingIsCollectedSoonAlsoWhereRecordsAreKeptForEver(t *testing.T) {
	s := newSweeping(t, 1, remembered(nil, goneFor(3*time.Minute)), goneRecord("n2", 100*monthAgo))
	forEver, err := policy.Load([]byte("apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec:\n  retention: 0\n"), policy.DefaultGate)
	require.NoError(t, err)
	s.Policy = func() policy.Policy { return forEver }
	s.sweeps()
	s.left("n2")
}

func TestTheRecordOfALiveNodeIsNeverCollected(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(s *sweeping)
		want    map[Outcome]int
	}{
		"the watch has not brought the Node yet": {func(s *sweeping) { s.register("n1") }, map[Outcome]int{Kept: 1}},
		"the watch has brought the Node or its end, and the API server does not find it": {func(s *sweeping) {
			s.known["n1"] = true
		}, map[Outcome]int{}},
		"the watch brings the Node while the record is read": {func(s *sweeping) {
			s.records.afterRead = func() { s.known["n1"] = true }
		}, map[Outcome]int{Kept: 1}},
		"the Node is recorded a moment before the removal": {func(s *sweeping) {
			s.records.hookBefore = func() {
				s.register("n1")
				entry, err := s.records.GetFromAPI(s.t.Context(), "n1")
				require.NoError(s.t, err)
				entry.Record.DeletedAt = time.Time{}
				_, err = s.records.Put(s.t.Context(), entry.Record, entry.Version)
				require.NoError(s.t, err)
			}
		}, map[Outcome]int{Kept: 1}},
		"the Node registers a moment before the removal": {func(s *sweeping) {
			s.records.hookBefore = func() { s.register("n1") }
		}, map[Outcome]int{PutBack: 1}},
		"the Node registers a moment after the removal": {func(s *sweeping) {
			s.records.hookAfter = func() { s.register("n1") }
		}, map[Outcome]int{PutBack: 1}},
		"whether the Node is there is not known after the removal": {func(s *sweeping) {
			s.fails(2, apierrors.NewInternalError(errors.New("a bad moment")))
		}, map[Outcome]int{PutBack: 1}},
		"the answer to the removal is lost, and the Node registers": {func(s *sweeping) {
			s.records.hookBefore = func() {
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
			s.sweeps()
			s.left("n1")
			entry, err := s.records.Memory.GetFromAPI(t.Context(), "n1")
			require.NoError(t, err)
			assert.Equal(t, labels{"a": "1"}, entry.Record.Items(), "nothing of it is lost")
			s.counted(c.want)
		})
	}
}

func TestASweepCollectsTheOldestFirstAndNoMoreThanItsFraction(t *testing.T) {
	var records []record.Record
	for n := range 30 {
		records = append(records, goneRecord(fmt.Sprintf("n%02d", n), monthAgo+time.Duration(n)*time.Hour))
	}
	s := newSweeping(t, .1, records...)
	s.sweeps()
	assert.Len(t, s.records.NodeNames(), 27)
	for _, oldest := range []string{"n27", "n28", "n29"} {
		assert.NotContains(t, s.records.NodeNames(), oldest)
	}
	assert.Equal(t, 3, s.waits, "each keeps to the pace")
	s.sweeps()
	assert.Len(t, s.records.NodeNames(), 25, "a tenth of 27 is 2")
	for range 100 {
		s.sweeps()
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
			s.sweeps()
			s.left("n1", "n2", "n3")
			s.counted(map[Outcome]int{Failed: 1})
			s.client.ReactionChain = s.client.ReactionChain[1:]
			s.sweeps()
			s.left()
		})
	}
	t.Run("a removal that is refused", func(t *testing.T) {
		s := newSweeping(t, 1, goneRecord("n1", monthAgo), goneRecord("n2", monthAgo))
		s.records.failing = errors.New("not yours")
		s.sweeps()
		s.left("n1", "n2")
		s.counted(map[Outcome]int{Failed: 1})
	})
}

func TestADryRunCollectsNothing(t *testing.T) {
	s := newSweeping(t, 1, goneRecord("n1", monthAgo), goneRecord("n2", monthAgo), goneRecord("n3", monthAgo))
	s.Remover.DryRun = true
	s.register("n2")
	s.sweeps()
	s.left("n1", "n2", "n3")
	s.counted(map[Outcome]int{WouldCollect: 2, Kept: 1})
}

func TestOnlyTheLeaderSweeps(t *testing.T) {
	s := newSweeping(t, 1, goneRecord("n1", monthAgo), goneRecord("n2", monthAgo))
	s.leads = false
	s.sweeps()
	s.left("n1", "n2")
	s.leads = true
	s.records.hookAfter = func() { s.leads = false }
	s.sweeps()
	assert.Len(t, s.records.NodeNames(), 1, "it leads no longer")
}

func TestARecordThatCannotBeReadIsNotCollected(t *testing.T) {
	s := newSweeping(t, 1, goneRecord("n1", monthAgo))
	s.records.Tamper("n1", []byte(`{"version": 1, "node": "n2", "deletedAt": "2020-01-01T00:00:00Z"}`))
	s.sweeps()
	_, err := s.records.Get("n1")
	require.ErrorIs(t, err, store.ErrUnreadable)
	s.counted(map[Outcome]int{})
}

func TestARecordThatPanicsDoesNotEndTheSweepOfTheOthers(t *testing.T) {
	s := newSweeping(t, 1, goneRecord("bad-live", 2*monthAgo), goneRecord("bad-in-memory", monthAgo), goneRecord("old", monthAgo))
	s.records.panicLive, s.records.panicInMemory = "bad-live", "bad-in-memory"
	s.sweeps()
	s.left("bad-live", "bad-in-memory")
	assert.Equal(t, 2, s.panics)
}

func TestASweepThatIsStoppedReportsWhatItDid(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(s *sweeping, stop func())
		want    map[Outcome]int
		left    []string
		line    string
	}{
		"while a record is removed": {
			arrange: func(s *sweeping, stop func()) { s.records.hookBefore = stop },
			want:    map[Outcome]int{Collected: 1}, left: []string{"n2"}, line: "due=2 removed=1",
		},
		"once a record is removed": {
			arrange: func(s *sweeping, stop func()) { s.records.hookAfter = stop },
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
			s.Sweep(ctx, func(ctx context.Context) error { return ctx.Err() })
			s.left(c.left...)
			s.counted(c.want)
			assert.Contains(t, log.String(), `level=INFO msg="records swept" records=2 gone=2 `+c.line)
			assert.NotContains(t, log.String(), "level=WARN", "being told to stop is no error")
		})
	}
}

func TestSweepsRepeatAndKeepToTheirPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var records []record.Record
		for n := range 20 {
			records = append(records, goneRecord(fmt.Sprintf("n%d", n), monthAgo))
		}
		s := newSweeping(t, .5, records...)
		s.Interval = time.Minute
		defer s.runs()()
		pos := func(base time.Duration, records int) {
			t.Helper()
			time.Sleep(base)
			synctest.Wait()
			assert.Len(t, s.records.NodeNames(), records)
		}
		pos(time.Minute-time.Second, 20)
		pos(2*time.Second, 10) // half of them, ten a second
		pos(58*time.Second, 10)
		pos(3*time.Second, 5)
	})
}

func TestNothingIsSweptBeforeAllCachesHaveSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSweeping(t, 1, goneRecord("n1", monthAgo))
		s.Interval = time.Second
		var synced atomic.Bool
		defer s.runs(synced.Load)()
		time.Sleep(time.Hour)
		synctest.Wait()
		s.left("n1")
		synced.Store(true)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		s.left()
	})
}

func TestASweepThatPanicsIsFollowedByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSweeping(t, 1, goneRecord("n1", monthAgo))
		s.Interval = time.Second
		broken := true
		s.Policy = func() policy.Policy {
			if broken {
				broken = false
				panic("policy")
			}
			return policy.Default()
		}
		defer s.runs()()
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		s.left("n1")
		time.Sleep(time.Second)
		synctest.Wait()
		s.left()
		assert.Equal(t, 1, s.panics)
	})
}
