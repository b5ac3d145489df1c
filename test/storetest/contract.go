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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
	"nodekeep.dev/nodekeep/store"
)

// Contract checks what a store promises. Each promise is checked on a store of its own.
func Contract(t *testing.T, newStore func(t *testing.T) Store) {
	promises := map[string]func(subject){
		"a Node that nobody put has no record": func(s subject) { s.lacks() },
		"what was put is there at once": func(s subject) {
			entry := s.put(s.record("ci"), "")
			s.equal(store.Entry{Record: s.record("ci"), Version: entry.Version}, entry)
			s.holds(entry)
		},
		"a record has all its fields":                        readsEverything,
		"a record has its taints, in one order":              readsTaints,
		"a record has its history, but not in memory":        keepsHistory,
		"what machines had that had the name before is kept": keepsEarlierMachines,
		"a record of the longest name is kept": func(s subject) {
			short := s.node
			s.node += "." + strings.Repeat("a", 253-len(s.node)-1)
			s.t.Cleanup(func() { s.Remove(s.node) })
			s.holds(s.put(s.record("ci"), ""))
			_, err := s.Get(short)
			assert.ErrorIs(s.t, err, store.ErrNotFound)
		},
		"a record is replaced by who read it": func(s subject) {
			entry := s.put(s.record("0"), "")
			for i := range 20 {
				next := s.put(s.record(fmt.Sprint(i+1)), entry.Version)
				assert.NotEqual(s.t, entry.Version, next.Version)
				s.holds(next)
				entry = next
			}
			s.holds(s.put(s.recordOf(), entry.Version))
		},
		"what is put is not changed by changing the record later": func(s subject) {
			r := s.record("ci")
			version := s.put(r, "").Version
			r.Entries[0].Value, r.Seen[0].UID = "changed", "changed"
			s.holds(store.Entry{Record: s.record("ci"), Version: version})
		},
		"who read an older version changes and deletes nothing": func(s subject) {
			first := s.put(s.record("ci"), "")
			second := s.put(s.record("gpu"), first.Version)
			s.conflicts(s.record("late"), first.Version)
			s.remains(first.Version)
			s.holds(second)

			s.Tamper(s.node, []byte("{"))
			s.remains(second.Version)
			s.unusable()
		},
		"who thinks that there is no record changes nothing": func(s subject) {
			entry := s.put(s.record("ci"), "")
			s.conflicts(s.record("late"), "")
			s.conflicts(s.record("ci"), "")
			s.holds(entry)
		},
		"who read a record that was removed makes none": func(s subject) {
			entry := s.put(s.record("ci"), "")
			s.Remove(s.node)
			s.conflicts(s.record("late"), entry.Version)
			s.lacks()
		},
		"a removed record is no longer there": func(s subject) {
			s.put(s.record("ci"), "")
			s.Remove(s.node)
			s.lacks()
			s.Remove(s.node)
			s.lacks()
		},
		"a record can be made again": func(s subject) {
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
		},
		"who read the record before the one made again is too late": func(s subject) {
			first := s.put(s.record("ci"), "")
			s.Remove(s.node)
			second := s.put(s.record("gpu"), "")
			s.conflicts(s.record("late"), first.Version)
			s.remains(first.Version)
			s.holds(second)
		},
		"a record that is too large is refused": func(s subject) {
			_, err := s.Put(s.t.Context(), s.recordOf("large", strings.Repeat("x", record.MaxBytes)), "")
			require.Error(s.t, err)
			require.NotErrorIs(s.t, err, store.ErrConflict, "trying again is of no use")
			s.lacks()
		},
		"of two who replace one wins":                             oneReplaces,
		"of two who create one wins":                              func(s subject) { oneWins(s, "") },
		"what cannot be read is never used and never overwritten": leavesUnreadable,
		"what was mended is readable":                             readsMended,
		"fields of a later version survive":                       keepsUnknown,
		"a record is deleted by who read it": func(s subject) {
			first := s.put(s.record("ci"), "")
			second := s.put(s.record("gpu"), first.Version)
			require.NoError(s.t, s.Delete(s.t.Context(), s.node, second.Version))
			s.isGone()
			s.remains(second.Version)
			entry := s.put(s.record("ci"), "")
			s.holds(entry)
			require.NoError(s.t, s.Delete(s.t.Context(), s.node, entry.Version))
			s.isGone()
		},
		"without a version nothing is deleted": func(s subject) {
			s.remains("")
			entry := s.put(s.record("ci"), "")
			s.remains("")
			s.holds(entry)
		},
		"who read a record that was deleted changes nothing": func(s subject) {
			entry := s.put(s.record("ci"), "")
			require.NoError(s.t, s.Delete(s.t.Context(), s.node, entry.Version))
			s.conflicts(s.record("late"), entry.Version)
			s.isGone()
		},
		"of one who deletes and one who replaces one wins": oneDeletes,
	}
	for _, name := range slices.Sorted(maps.Keys(promises)) {
		t.Run(name, func(t *testing.T) {
			s := subject{Store: newStore(t), t: t, node: fmt.Sprintf("contract-%016x", rand.Uint64())}
			t.Cleanup(func() { s.Remove(s.node) })
			promises[name](s)
		})
	}
}

func readsEverything(s subject) {
	first := s.recordOf("dedicated", "ci", "node-role.kubernetes.io/worker", "", "old", "x", "node-restriction.kubernetes.io/tier", "gold")
	first = record.Merge(first, record.Observation{UID: "uid-1", Version: 81240, Items: map[string]record.Item{
		"dedicated": {Value: "ci"}, "node-role.kubernetes.io/worker": {}, "node-restriction.kubernetes.io/tier": {Value: "gold"},
	}})
	all := record.Merge(first, record.Observation{UID: "uid-2", Version: 81250, DeletedAt: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), Items: map[string]record.Item{"dedicated": {Value: "gpu"}}})
	all.Cluster, all.Machine = "cluster-1", record.Machine{ProviderID: "aws:///eu-1a/i-0", SystemUUID: "<&>", MachineID: "m"}
	all.Floor = 81000
	entry := s.put(all, "")
	s.holds(entry)
	for _, got := range s.read() {
		assert.Equal(s.t, all, got.Record)
	}
	old, _ := all.Entry("old")
	require.True(s.t, old.Removed)
	role, _ := all.Entry("node-role.kubernetes.io/worker")
	require.True(s.t, role.NotShown)

	quarantined := record.Merge(record.Isolate(all, record.Machine{SystemUUID: "other"}, 81299, record.EarlierRetention{}), record.Observation{UID: "uid-3", Version: 81300, Items: map[string]record.Item{"own": {Value: "1"}}})
	next := s.put(quarantined, entry.Version)
	s.holds(next)
	for _, got := range s.read() {
		assert.Equal(s.t, quarantined, got.Record)
	}
	s.holds(s.put(record.AcceptNew(quarantined), next.Version))
	for _, got := range s.read() {
		assert.Nil(s.t, got.Record.Quarantined, "nothing is left of what was quarantined")
	}
}

func keepsEarlierMachines(s subject) {
	first := s.record("ci")
	first.Machine = record.Machine{SystemUUID: "first"}
	waits := s.record("secret")
	first.Followed, first.Quarantined = "before", &waits
	second := record.Merge(record.SetAside(first, record.Machine{SystemUUID: "second"}, 81299, record.EarlierRetention{Now: gone}), record.Observation{UID: "uid-2", Version: 81300, Items: map[string]record.Item{"own": {Value: "1"}}})
	entry := s.put(second, "")
	s.holds(entry)
	for _, got := range s.read() {
		require.Len(s.t, got.Record.Earlier, 1)
		assert.Equal(s.t, first.Items(), got.Record.Earlier[0].Items())
		assert.Equal(s.t, gone, got.Record.Earlier[0].DeletedAt)
		require.NotNil(s.t, got.Record.Earlier[0].Quarantined, "what waits for an operator waits still")
		assert.Equal(s.t, waits.Items(), got.Record.Earlier[0].Quarantined.Items())
	}
	returned, found := record.Returned(second, first.Machine, 81399, record.EarlierRetention{Now: gone})
	require.True(s.t, found)
	returned = record.Merge(returned, record.Observation{UID: "uid-3", Version: 81400})
	last := s.put(returned, entry.Version)
	s.holds(last)
	s.holds(s.put(s.record("ci"), last.Version))
	for _, got := range s.read() {
		assert.Empty(s.t, got.Record.Earlier, "nothing is left of other machines")
	}
}

var gone = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func readsTaints(s subject) {
	r := s.recordOf("dedicated", "ci", "maintenance:NoExecute", "disk", "maintenance:NoSchedule", "", "example.com/rack:PreferNoSchedule", "r7", "team:NoExecute", "b")
	for i, e := range r.Entries {
		r.Entries[i].NotShown = e.Key == "team:NoExecute"
	}
	entry := s.put(r, "")
	s.holds(entry)
	for _, got := range s.read() {
		assert.Equal(s.t, r.Items(), got.Record.Items())
		assert.JSONEq(s.t, `[{"key": "example.com/rack", "value": "r7", "effect": "PreferNoSchedule"},
			{"key": "maintenance", "value": "disk", "effect": "NoExecute"}, {"key": "maintenance", "effect": "NoSchedule"}]`, s.field(got.Record, "taints"))
		assert.JSONEq(s.t, `{"taints": [{"key": "team", "value": "b", "effect": "NoExecute"}]}`, s.field(got.Record, "notShown"))
	}
	next := s.put(s.recordOf("dedicated", "ci", "maintenance:NoSchedule", ""), entry.Version)
	assert.NotEqual(s.t, entry.Version, next.Version)
	s.holds(next)
}

func keepsHistory(s subject) {
	first := s.record("ci")
	entry := s.put(first, "")
	cause := func(string, history.Values) history.Cause {
		return history.Cause{Actor: "kubectl-label", Time: metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))}
	}
	changed := s.put(history.Append(first, s.record("gpu"), cause), entry.Version)
	s.holds(changed)
	live, err := s.GetFromAPI(s.t.Context(), s.node)
	require.NoError(s.t, err)
	const want = `[{"number": 1, "time": "2026-05-01T12:00:00Z", "actor": "kubectl-label", "labels": {"dedicated": {"from": "ci", "to": "gpu"}}}]`
	assert.JSONEq(s.t, want, s.field(live.Record, "history"))
	assert.False(s.t, live.Record.HistoryOmitted)

	held, err := s.Get(s.node)
	require.NoError(s.t, err)
	assert.True(s.t, held.Record.HistoryOmitted)
	assert.Empty(s.t, held.Record.History)
	_, err = s.Put(s.t.Context(), held.Record, held.Version)
	require.Error(s.t, err, "the history would be lost")
	require.NotErrorIs(s.t, err, store.ErrConflict)

	quarantined := record.Merge(record.Isolate(live.Record, record.Machine{SystemUUID: "other"}, 81299, record.EarlierRetention{}), record.Observation{UID: "uid-2", Version: 81300})
	s.holdsLive(s.put(quarantined, live.Version))
	held, err = s.Get(s.node)
	require.NoError(s.t, err)
	_, err = s.Put(s.t.Context(), held.Record, held.Version)
	require.Error(s.t, err, "the history of the other machine would be lost")
}
