package store

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// unknown returns a record with fields of a later version.
func unknown(t testing.TB) record.Record {
	t.Helper()
	r, err := record.Decode([]byte(`{"version": 2, "node": "n1", "labels": {"a": "1"}, "ofTomorrow": [1, "<&>"], "notShown": {"labels": {"b": "2"}, "ofTomorrow": {}}}`))
	require.NoError(t, err)
	return r
}

func TestPackedRecordsLoseNothingButTheirHistory(t *testing.T) {
	full := record.Record{
		Node: "n1", Cluster: "c1", Floor: 2, Seen: []record.Object{{UID: "u0", Version: 5}, {UID: "u1", Version: 7}},
		Entries: []record.Entry{{Key: "a", Value: "1", Version: 7}, {Key: "b", Version: 7}, {Key: "c:NoSchedule", Value: "x", Version: 7}},
		Machine: record.Machine{ProviderID: "aws:///eu-1a/i-0", SystemUUID: "s", MachineID: "m"},
	}
	entries := func(entries ...record.Entry) func(*record.Record) {
		return func(r *record.Record) { r.Entries = entries }
	}
	for name, change := range map[string]func(r *record.Record){
		"a usual one":                func(*record.Record) {},
		"without entries":            entries(),
		"without a machine":          func(r *record.Record) { r.Machine = record.Machine{} },
		"with removals":              entries(record.Entry{Key: "a", Removed: true, Version: 7}, record.Entry{Key: "b", Removed: true, Version: 3}, record.Entry{Key: "c", Value: "x", Version: 7}),
		"with inherited entries":     entries(record.Entry{Key: "a", Value: "1", Version: 5}, record.Entry{Key: "b", Version: 0}, record.Entry{Key: "c", Value: "2", Version: math.MaxUint64}),
		"with entries not shown":     entries(record.Entry{Key: "a", Value: "1", Version: 7, NotShown: true}, record.Entry{Key: "b", Value: "1", Version: 4, NotShown: true}),
		"with owners":                entries(record.Entry{Key: "a", Value: "1", Version: 7, Owners: "Apply x\nUpdate y"}, record.Entry{Key: "b", Version: 4, Owners: "Apply x"}, record.Entry{Key: "c", Version: 7}),
		"with a value of a removal":  entries(record.Entry{Key: "a", Removed: true, NotShown: true, Version: 4}),
		"of no object":               func(r *record.Record) { r.Seen, r.Floor = nil, 0 },
		"of one object":              func(r *record.Record) { r.Seen = r.Seen[1:] },
		"of an object without a UID": func(r *record.Record) { r.Seen = []record.Object{{Version: 3}} },
		"of the greatest version": func(r *record.Record) {
			r.Seen, r.Floor = []record.Object{{UID: "u", Version: math.MaxUint64}}, math.MaxUint64-1
		},
		"of a deleted Node":          func(r *record.Record) { r.DeletedAt = time.Date(2026, 5, 1, 12, 0, 0, 500, time.UTC) },
		"of a Node gone before 1970": func(r *record.Record) { r.DeletedAt = time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC) },
		"of a Node gone very late":   func(r *record.Record) { r.DeletedAt = time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC) },
		"quarantined":                func(r *record.Record) { old := full; r.Quarantined = &old },
		"of earlier machines": func(r *record.Record) {
			old, waits := full, full
			old.History, old.Quarantined = manyChanges(), &waits
			r.Earlier = []record.Record{full, old}
		},
		"with a key that has a NUL":      entries(record.Entry{Key: "a\x00b", Value: "1", Version: 7}),
		"with a value that has a NUL":    entries(record.Entry{Key: "a", Value: "1\x002", Version: 7}),
		"with a UID that has a NUL":      func(r *record.Record) { r.Seen = []record.Object{{UID: "u\x001", Version: 7}} },
		"with a machine that has NULs":   func(r *record.Record) { r.Machine.ProviderID, r.Machine.MachineID = "p\x00s\x00m\x002", "\x00" },
		"with an empty key":              entries(record.Entry{Value: "1", Version: 7}),
		"with fields of later versions":  func(r *record.Record) { *r = unknown(t) },
		"quarantined, of later versions": func(r *record.Record) { old := unknown(t); r.Quarantined = &old },
		"with a history":                 func(r *record.Record) { r.History = manyChanges() },
		"read without its history":       func(r *record.Record) { r.HistoryOmitted = true },
		"quarantined with a history":     func(r *record.Record) { old := full; old.History = manyChanges(); r.Quarantined = &old },
		"with entries that were dropped": func(r *record.Record) { r.Dropped = record.Dropped{Labels: 3, Taints: 300} },
		"with nothing at all":            func(r *record.Record) { *r = record.Record{} },
	} {
		t.Run(name, func(t *testing.T) {
			r := full
			r.Entries = slices.Clone(full.Entries)
			change(&r)
			requirePacks(t, r)
		})
	}
}

// requirePacks says that a record packed is the record but for its history.
func requirePacks(t *testing.T, r record.Record) {
	t.Helper()
	lessHistory := func(r record.Record) record.Record {
		r.HistoryOmitted, r.History = r.HistoryOmitted || len(r.History) > 0, nil
		if r.Quarantined != nil {
			waits := *r.Quarantined
			waits.HistoryOmitted, waits.History = waits.HistoryOmitted || len(waits.History) > 0, nil
			r.Quarantined = &waits
		}
		return r
	}
	want := lessHistory(r)
	want.Earlier = nil
	for _, prev := range r.Earlier {
		want.Earlier = append(want.Earlier, lessHistory(prev))
	}
	if len(want.Entries) == 0 {
		want.Entries = nil
	}
	p := pack(r)
	got := p.record()
	require.Equal(t, want, got)
	require.Equal(t, r.Node, p.node())
	if !want.Omitted() {
		prev, err := encode(r)
		if err != nil {
			return // of a time that is none, or too large: it came from no ConfigMap
		}
		next, err := encode(got)
		require.NoError(t, err)
		require.Equal(t, prev, next, "it is written back as it was read")
	}
}

// Any record that clients, kubelets and processes can bring about, and any part of it that a client can have written.
func TestRandomRecordsPack(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range 1_000 {
		requirePacks(t, randomRecord(rand.New(rand.NewPCG(seed, uint64(i))), true))
	}
}

func randomRecord(random *rand.Rand, quarantine bool) record.Record {
	text := func() string {
		return []string{"", "a", "b", "ci", "\x00", "worker-1", "4a8c52fe-9a3c-4b54-8f6d-0d7e5b3f2a11", "größe"}[random.IntN(8)]
	}
	r := record.Record{Node: text(), Cluster: text(), Machine: record.Machine{ProviderID: text(), SystemUUID: text(), MachineID: text()}}
	keys := []string{"a", "example.com/b", "c:NoSchedule", "c:NoExecute", "node-role.kubernetes.io/worker", "z"}
	version := record.Version(0)
	for object := range random.IntN(11) {
		for range 1 + random.IntN(3) {
			version += record.Version(1 + random.IntN(1<<random.IntN(30)))
			o := record.Observation{UID: types.UID(fmt.Sprint("u", object)), Version: version, Items: map[string]record.Item{}}
			for _, key := range keys {
				if random.IntN(2) == 0 {
					o.Items[key] = record.Item{Value: text(), Owner: record.Owner(random.IntN(4))}
				}
				if random.IntN(4) == 0 {
					o.Stamp = o.Stamp.Merge(map[string]string{key: text()}, record.Record{}, version-1)
				}
			}
			if random.IntN(4) == 0 {
				o.DeletedAt = time.Unix(random.Int64N(1<<33), 0).UTC()
			}
			r = record.Merge(r, o)
		}
	}
	for i := range r.Entries {
		if random.IntN(16) == 0 {
			r.Entries[i].NotShown = !r.Entries[i].NotShown
		}
	}
	if random.IntN(4) == 0 {
		r.HistoryOmitted = true
	}
	if quarantine && random.IntN(4) == 0 {
		old := randomRecord(random, false)
		r.Quarantined = &old
	}
	return r
}

func TestARecordThatPanicsWhenItIsReadCannotBeReadAndEndsNoProcess(t *testing.T) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: Name("n1"), Namespace: "nodekeep-system", ResourceVersion: "7"}}
	entry := compactWith(func(document) (record.Record, error) { panic("this record") }, cm)
	require.ErrorContains(t, entry.unreadable(), "this record")
	assert.Equal(t, "n1", entry.node(), "its Node is known by the name of the ConfigMap")
	assert.Equal(t, "7", entry.GetObjectMeta().GetResourceVersion())

	counts := totals{sizes: map[int]int{}}
	counts.replaced(nil, entry)
	assert.Equal(t, 1, counts.sum().Unreadable, "the metric of unreadable records counts it")
}

func TestWhoGetsAPackedRecordMayChangeItsEntries(t *testing.T) {
	r := record.Record{Node: "n1", Seen: []record.Object{{UID: "u", Version: 7}}, Entries: []record.Entry{{Key: "a", Value: "1", Version: 7}}}
	p := pack(r)
	r.Entries[0].Value, r.Seen[0].UID = "2", "v"
	first := p.record()
	first.Entries[0].Value, first.Seen[0].UID = "3", "w"
	assert.Equal(t, "1", p.record().Entries[0].Value)
	assert.Equal(t, types.UID("u"), p.record().Seen[0].UID)
}

// What a webhook holds of 100,000 Nodes: a record of 10 labels takes no more than it took when a record was a map of labels (284
// bytes), and far less than decoded. That of a Node which registered again takes little more.
func TestPackedRecordsTakeLittleMemory(t *testing.T) {
	const count, prev = 1_000, 284
	decoded := perRecord(count, usualRecord, func(r record.Record) any { return &r })
	small := perRecord(count, usualRecord, func(r record.Record) any { p := pack(r); return &p })
	reread := perRecord(count, registeredAgain, func(r record.Record) any { p := pack(r); return &p })
	t.Logf("a record of 10 labels takes %.0f bytes packed, %.0f decoded; packed, of a Node that registered again, %.0f", small, decoded, reread)
	assert.Less(t, small, decoded/3)
	assert.LessOrEqual(t, small, float64(prev))
	assert.Less(t, reread, small+200)
}

// What the caches of webhook and capture hold of a record does not grow with its history.
func TestAHistoryTakesNoMemoryInACache(t *testing.T) {
	const count = 1_000
	held := func(changes json.RawMessage) (bytes float64, stored int) {
		bytes = perItem(count, func(i int) any {
			r := usualRecord(i)
			r.History = changes
			data, err := Encode(r)
			require.NoError(t, err)
			stored = len(data)
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: Name(r.Node), Namespace: "n", ResourceVersion: r.Newest().Version.String()}, Data: map[string]string{DataKey: string(data)}}
			entry, err := compact(cm)
			require.NoError(t, err)
			require.Equal(t, len(changes) > 0, entry.(*cached).record.record().HistoryOmitted)
			return entry
		})
		return bytes, stored
	}
	rest, plain := held(nil)
	replacement, full := held(manyChanges())
	t.Logf("in a cache a record takes %.0f bytes, with a full history %.0f; it is stored in %d and %d", rest, replacement, plain, full)
	assert.InDelta(t, rest, replacement, 16)
}

func manyChanges() json.RawMessage {
	r := record.Record{Node: "n", Entries: []record.Entry{{Key: "example.com/label-1", Value: "value-0"}}}
	for i := range history.Max {
		next := record.Record{Node: "n", Entries: []record.Entry{{Key: "example.com/label-1", Value: fmt.Sprint("value-", i+1)}}}
		r = history.Append(r, next, func(string, history.Values) history.Cause {
			return history.Cause{Actor: "kubectl-label", Time: metav1.Unix(int64(1_700_000_000+i), 0)}
		})
	}
	return r.History
}

func BenchmarkGetPacked(b *testing.B) {
	p := pack(usualRecord(7))
	b.ReportAllocs()
	for b.Loop() {
		require.Len(b, p.record().Entries, 10)
	}
}

// BenchmarkCompact is what a cache does with each record that the watch brings.
func BenchmarkCompact(b *testing.B) {
	for name, changes := range map[string]json.RawMessage{"without a history": nil, "with a full history": manyChanges()} {
		b.Run(name, func(b *testing.B) {
			r := usualRecord(7)
			r.History = changes
			data, err := Encode(r)
			require.NoError(b, err)
			cm := &corev1.ConfigMap{Data: map[string]string{DataKey: string(data)}}
			for b.Loop() {
				_, _ = compact(cm)
			}
		})
	}
}

func usualRecord(i int) record.Record {
	r := record.Record{Node: fmt.Sprintf("worker-%d", i), Cluster: "0f6f0c5d-6d1b-4b0e-9d3a-7a214a8c6f1e"}
	r.Machine = record.Machine{ProviderID: fmt.Sprintf("aws:///eu-central-1a/i-%017x", i), SystemUUID: fmt.Sprintf("ec2%05x-9a3c-4b54-8f6d-0d7e5b3f2a11", i)}
	return record.Merge(r, labelled(i, "4a8c52fe-9a3c-4b54-8f6d-0d7e5b3f2a11", 1_000_000, 10))
}

// registeredAgain returns the record of a Node that registered again and was then given another value for one of its labels.
func registeredAgain(i int) record.Record {
	o := labelled(i, "5b9d63af-9a3c-4b54-8f6d-0d7e5b3f2a11", 2_000_000, 10)
	given := map[string]string{}
	for key, item := range o.Items {
		given[key] = item.Value
	}
	delete(given, "example.com/label-3")
	o.Items["example.com/label-3"] = record.Item{Value: "edited", Owner: record.Client}
	o.Stamp = o.Stamp.Merge(given, record.Record{}, 0)
	return record.Merge(usualRecord(i), o)
}

func labelled(i int, uid types.UID, version, labels int) record.Observation {
	o := record.Observation{UID: uid, Version: record.Version(version + i), Items: map[string]record.Item{}}
	for n := range labels {
		o.Items[fmt.Sprintf("example.com/label-%d", n)] = record.Item{Value: fmt.Sprintf("value-%d", i%50+n)}
	}
	return o
}

func perRecord(count int, fn func(i int) record.Record, keep func(record.Record) any) float64 {
	return perItem(count, func(i int) any {
		// As they come: decoded, each with strings of its own.
		data, _ := Encode(fn(i))
		r, _ := record.Decode(data)
		return keep(r)
	})
}

func perItem(count int, keep func(i int) any) float64 {
	kept := make([]any, count)
	prev := liveBytes()
	for i := range kept {
		kept[i] = keep(i)
	}
	next := liveBytes()
	runtime.KeepAlive(kept)
	return math.Max(0, float64(next)-float64(prev)) / float64(count)
}

func liveBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// FuzzPack holds packed records to those that they were made of.
func FuzzPack(f *testing.F) {
	files, err := filepath.Glob("../record/testdata/*.json")
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(data, data)
	}
	for _, data := range []string{
		`{"version":1,"node":"n"}`, `{"version":2,"node":"n","labels":{"a":"\u0000","":"1"}}`, `{"version":1,"node":"n","uid":"\u0000","nodeResourceVersion":"1","labels":{}}`,
		`{"version":1,"node":"n","labels":{"a":"1","b":""},"taints":[{"key":"t","value":"v","effect":"NoSchedule"}],"machine":{"machineID":"m"},"x":1}`,
		`{"version":1,"node":"","notShown":{"labels":{"w":"1"},"y":2},"deletedAt":"2026-05-01T12:00:00.123456789+02:00"}`,
		`{"version":1,"node":"n","labels":{"a":"1","tier":"bronze"},"machine":{"providerID":"p\u0000s\u0000m\u00001\u0000gold","systemUUID":"\u0000"}}`,
		"{\"version\":1,\"node\":\"n\",\"labels\":{\"a\":\"\xff\"},\"machine\":{\"machineID\":\"m\xfe\"},\"\xff\":\"\xff\"}",
		`{"version":1,"node":"n","history":[{"number":1,"time":"2026-05-01T12:00:00Z","labels":{"a":{"to":"1"}}}]}`,
		`{"version":1,"node":"n","uid":"u","nodeResourceVersion":"18446744073709551615","inherited":{"a":"3"},"removed":{"r":"18446744073709551614","s":"7"},"labels":{"a":"1"},"forgottenUntil":"6","former":[{"uid":"t","nodeResourceVersion":"7"}]}`,
		`{"version":1,"node":"n","deletedAt":"0001-01-01T00:00:00Z"}`, `{"version":1,"node":"n","deletedAt":"0001-01-01T00:00:00.000000001Z"}`,
	} {
		f.Add([]byte(data), []byte(nil))
		f.Add([]byte(data), []byte(data))
	}
	f.Fuzz(func(t *testing.T, data, quarantined []byte) {
		r, err := (document{record: string(data), quarantined: string(quarantined)}).decode()
		if err != nil {
			return
		}
		requirePacks(t, r)
	})
}
