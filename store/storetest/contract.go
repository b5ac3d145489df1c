package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
)

// Contract checks what a store promises. Each promise is checked on a store of its own.
func Contract(t *testing.T, newStore func(t *testing.T) Store) {
	promises := map[string]func(subject){
		"a Node that nobody put has no record":                       nothingThere,
		"what was put is there at once":                              reads,
		"a record has all its fields":                                readsEverything,
		"a record has its taints, in one order":                      readsTaints,
		"a record has its history, but not in memory":                keepsHistory,
		"a record of the longest name is kept":                       readsLongNames,
		"a record is replaced by who read it":                        replaces,
		"what is put is not changed by changing the record later":    copies,
		"who read an older version changes nothing":                  refusesStale,
		"who thinks that there is no record changes nothing":         refusesSecondCreate,
		"who read a record that was removed makes none":              refusesRemoved,
		"a removed record is gone":                                   forgets,
		"a record can be made again":                                 createsAgain,
		"who read the record before the one made again is too late":  refusesFormerLife,
		"a record that is too large is refused":                      refusesLarge,
		"of two who replace one wins":                                oneReplaces,
		"of two who create one wins":                                 oneCreates,
		"what cannot be read is never used and never overwritten":    leavesUnreadable,
		"what was mended is readable":                                readsMended,
		"fields of a later version survive":                          keepsUnknown,
		"a record is deleted by who read it":                         deletes,
		"who read an older version deletes nothing":                  deletesNoOther,
		"who read the record before the one made again deletes none": deletesNoLaterLife,
		"without a version nothing is deleted":                       deletesNothingUnread,
		"who read a record that was deleted changes nothing":         refusesDeleted,
		"of one who deletes and one who replaces one wins":           oneDeletes,
	}
	for _, name := range slices.Sorted(maps.Keys(promises)) {
		t.Run(name, func(t *testing.T) {
			s := subject{Store: newStore(t), t: t, node: fmt.Sprintf("contract-%016x", rand.Uint64())}
			t.Cleanup(func() { s.Remove(s.node) })
			promises[name](s)
		})
	}
}

func nothingThere(s subject) {
	s.lacks()
}

func reads(s subject) {
	entry := s.put(s.record("ci"), "")
	s.same(store.Entry{Record: s.record("ci"), Version: entry.Version}, entry)
	assert.Equal(s.t, store.Version, entry.Record.Version, "what Put answers is what a reader gets")
	s.holds(entry)
}

func readsEverything(s subject) {
	record := s.record("ci")
	record.Items["node-role.kubernetes.io/worker"] = ""
	record.Items["html"] = "<&>"
	record.Withheld.Items = map[string]string{"node-restriction.kubernetes.io/tier": "gold"}
	record.DeletedAt = &metav1.Time{Time: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	s.holds(s.put(record, ""))
	got, err := s.GetLive(s.t.Context(), s.node)
	require.NoError(s.t, err)
	assert.True(s.t, record.Same(got.Record))
	assert.Equal(s.t, record.NodeResourceVersion, got.Record.NodeResourceVersion)
	assert.True(s.t, record.DeletedAt.Equal(got.Record.DeletedAt))
}

func readsTaints(s subject) {
	record := s.record("ci")
	disk := "disk"
	record.Items["maintenance:NoExecute"], record.Items["maintenance:NoSchedule"], record.Items["example.com/rack:PreferNoSchedule"] = "disk", "", "r7"
	record.Withheld.Items = map[string]string{"team:NoExecute": "b", "disktype": "ssd"}
	record.Later = map[string]*string{"maintenance:NoSchedule": nil, "later:NoExecute": &disk}
	record.LaterVersions = map[string]string{"later:NoExecute": "81240"}
	record.RuleTaints = []corev1.Taint{
		{Key: "dedicated", Value: "ci", Effect: corev1.TaintEffectNoSchedule},
		{Key: "node-role.kubernetes.io/worker", Effect: corev1.TaintEffectNoSchedule},
	}
	entry := s.put(record, "")
	s.holds(entry)
	for _, read := range []func() (store.Entry, error){
		func() (store.Entry, error) { return s.Get(s.node) },
		func() (store.Entry, error) { return s.GetLive(s.t.Context(), s.node) },
	} {
		got, err := read()
		require.NoError(s.t, err)
		assert.True(s.t, record.Same(got.Record))
		assert.Equal(s.t, record.Remembered(), got.Record.Remembered())
		assert.JSONEq(s.t, `[{"key": "example.com/rack", "value": "r7", "effect": "PreferNoSchedule"},
			{"key": "maintenance", "value": "disk", "effect": "NoExecute"}, {"key": "maintenance", "effect": "NoSchedule"}]`, s.field(got.Record, "taints"))
		assert.JSONEq(s.t, `{"labels": {"disktype": "ssd"}, "taints": [{"key": "team", "value": "b", "effect": "NoExecute"}]}`, s.field(got.Record, "withheld"))
	}

	delete(record.Items, "maintenance:NoExecute")
	record.RuleTaints = record.RuleTaints[:1]
	next := s.put(record, entry.Version)
	assert.NotEqual(s.t, entry.Version, next.Version)
	s.holds(next)
	assert.True(s.t, record.Same(next.Record))
}

func keepsHistory(s subject) {
	first := s.record("ci")
	entry := s.put(first, "")
	cause := func(string, store.Values) store.Cause {
		return store.Cause{Actor: "kubectl-label", Time: metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))}
	}
	changed := s.put(s.record("gpu").Following(first, cause), entry.Version)
	s.holds(changed)
	live, err := s.GetLive(s.t.Context(), s.node)
	require.NoError(s.t, err)
	const want = `[{"number": 1, "time": "2026-05-01T12:00:00Z", "actor": "kubectl-label", "labels": {"dedicated": {"from": "ci", "to": "gpu"}}}]`
	assert.JSONEq(s.t, want, s.field(live.Record, "history"))
	assert.False(s.t, live.Record.HistoryLeftOut())

	held, err := s.Get(s.node)
	require.NoError(s.t, err)
	assert.True(s.t, held.Record.HistoryLeftOut())
	assert.Empty(s.t, held.Record.History)
	_, err = s.Put(s.t.Context(), held.Record, held.Version)
	require.Error(s.t, err, "the history would be lost")
	require.NotErrorIs(s.t, err, store.ErrConflict)
	s.holds(s.put(live.Record, live.Version))
}

func readsLongNames(s subject) {
	short := s.node
	s.node += "." + strings.Repeat("a", 253-len(s.node)-1)
	s.t.Cleanup(func() { s.Remove(s.node) })
	s.holds(s.put(s.record("ci"), ""))
	_, err := s.Get(short)
	assert.ErrorIs(s.t, err, store.ErrNotFound)
}

func replaces(s subject) {
	entry := s.put(s.record("0"), "")
	for i := range 20 {
		next := s.put(s.record(fmt.Sprint(i+1)), entry.Version)
		assert.NotEqual(s.t, entry.Version, next.Version)
		s.holds(next)
		entry = next
	}
	record := s.record("")
	record.Items = nil
	s.holds(s.put(record, entry.Version))
}

func copies(s subject) {
	record := s.record("ci")
	version := s.put(record, "").Version
	record.Items["dedicated"], record.Items["more"] = "changed", "x"
	s.holds(store.Entry{Record: s.record("ci"), Version: version})
}

func refusesStale(s subject) {
	first := s.put(s.record("ci"), "")
	second := s.put(s.record("gpu"), first.Version)
	s.conflicts(s.record("late"), first.Version)
	s.holds(second)
}

func refusesSecondCreate(s subject) {
	entry := s.put(s.record("ci"), "")
	s.conflicts(s.record("late"), "")
	s.conflicts(s.record("ci"), "")
	s.holds(entry)
}

func createsAgain(s subject) {
	first := s.put(s.record("ci"), "")
	s.Remove(s.node)
	second := s.put(s.record("gpu"), "")
	assert.NotEqual(s.t, first.Version, second.Version)
	s.holds(second)
	// What the watch brings late of the first life must not bring it back.
	assert.Never(s.t, func() bool {
		got, err := s.Get(s.node)
		return err != nil || got.Version != second.Version
	}, 100*time.Millisecond, 5*time.Millisecond)
}

func refusesFormerLife(s subject) {
	first := s.put(s.record("ci"), "")
	s.Remove(s.node)
	second := s.put(s.record("gpu"), "")
	s.conflicts(s.record("late"), first.Version)
	s.holds(second)
}

func refusesLarge(s subject) {
	record := s.record("ci")
	record.Items["large"] = strings.Repeat("x", store.MaxRecordBytes)
	_, err := s.Put(s.t.Context(), record, "")
	require.Error(s.t, err)
	require.NotErrorIs(s.t, err, store.ErrConflict, "trying again is of no use")
	s.lacks()
}
