package store

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPackedRecordsAreAsTheyWere(t *testing.T) {
	full := Record{Version: Version, Node: "n1", UID: "u1", NodeResourceVersion: "7", Items: map[string]string{"a": "1", "b": "", "c:NoSchedule": "x"}}
	full.Machine = Machine{ProviderID: "aws:///eu-1a/i-0", SystemUUID: "s", MachineID: "m"}
	one := "1"
	for name, change := range map[string]func(r *Record){
		"a usual one":                   func(*Record) {},
		"without items":                 func(r *Record) { r.Items = nil },
		"without a machine":             func(r *Record) { r.Machine = Machine{} },
		"with everything else":          func(r *Record) { r.Later = map[string]*string{"a": nil, "d": &one}; r.Early = true },
		"with moments":                  func(r *Record) { r.LaterVersions = map[string]string{"a": "7"} },
		"with withheld items":           func(r *Record) { r.Withheld.Items = map[string]string{"z": "1"} },
		"with taints of rules":          func(r *Record) { r.RuleTaints = []corev1.Taint{{Key: "k", Effect: "NoSchedule"}} },
		"with claims of rules":          func(r *Record) { r.RuleClaims = []corev1.Taint{{Key: "k", Effect: "NoSchedule"}} },
		"with former taints":            func(r *Record) { r.FormerTaints = []corev1.Taint{{Key: "k", Effect: "NoSchedule"}} },
		"of a Node that is gone":        func(r *Record) { r.DeletedAt = &metav1.Time{} },
		"quarantined":                   func(r *Record) { old := full; r.Quarantined, r.Accepted = &old, OldMachine },
		"of the next version":           func(r *Record) { r.Version = Version + 1 },
		"of no version":                 func(r *Record) { r.Version = 0 },
		"with a key that has a NUL":     func(r *Record) { r.Items = map[string]string{"a\x00b": "1"} },
		"with a value that has a NUL":   func(r *Record) { r.Items = map[string]string{"a": "1\x002"} },
		"with a uid that has a NUL":     func(r *Record) { r.UID = "u\x001" },
		"with a machine that has NULs":  func(r *Record) { r.Machine.ProviderID, r.Machine.MachineID = "p\x00s\x00m\x002", "\x00" },
		"with an empty key":             func(r *Record) { r.Items = map[string]string{"": "1"} },
		"with fields of later versions": func(r *Record) { r.unknown = map[string]json.RawMessage{"new": json.RawMessage(`1`)} },
		"with a history":                func(r *Record) { r.History = manyChanges() },
		"with a history and a NUL":      func(r *Record) { r.History, r.UID = manyChanges(), "u\x001" },
		"quarantined with a history":    func(r *Record) { old := full; old.History = manyChanges(); r.Quarantined = &old },
		"with nothing at all":           func(r *Record) { *r = Record{} },
	} {
		t.Run(name, func(t *testing.T) {
			r := full
			change(&r)
			assert.Equal(t, r.WithoutHistory(), pack(r).record())
			assert.Equal(t, r.Node, pack(r).node())
		})
	}
}

func TestWhoGetsAPackedRecordMayChangeItsItems(t *testing.T) {
	p := pack(Record{Version: Version, Node: "n1", Items: map[string]string{"a": "1"}})
	p.record().Items["a"] = "2"
	assert.Equal(t, "1", p.record().Items["a"])
}

// A record of 10 labels must take far less memory packed than decoded: 100,000 of them are what a webhook holds.
func TestPackedRecordsTakeLittleMemory(t *testing.T) {
	const count = 5_000
	decoded := perRecord(count, func(r Record) any { return &r })
	small := perRecord(count, func(r Record) any { p := pack(r); return &p })
	t.Logf("a record of 10 labels takes %.0f bytes packed, %.0f decoded", small, decoded)
	assert.Less(t, small, decoded/3)
}

// What the caches of webhook and capture hold of a record does not grow with its history.
func TestAHistoryTakesNoMemoryInACache(t *testing.T) {
	const count = 5_000
	held := func(history []Change) (bytes float64, stored int) {
		bytes = perItem(count, func(i int) any {
			r := usualRecord(i)
			r.History = history
			data, err := Encode(r)
			require.NoError(t, err)
			stored = len(data)
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: Name(r.Node), Namespace: "n", ResourceVersion: r.NodeResourceVersion}, Data: map[string]string{DataKey: string(data)}}
			entry, err := compact(cm)
			require.NoError(t, err)
			require.Equal(t, len(history) > 0, entry.(*cached).record.record().HistoryLeftOut())
			return entry
		})
		return bytes, stored
	}
	without, plain := held(nil)
	with, full := held(manyChanges())
	t.Logf("in a cache a record takes %.0f bytes, with a full history %.0f; it is stored in %d and %d", without, with, plain, full)
	assert.InDelta(t, without, with, 16)
}

func manyChanges() (history []Change) {
	for i := range MaxHistory {
		from, to := fmt.Sprint("value-", i), fmt.Sprint("value-", i+1)
		history = append(history, Change{Number: i + 1, Time: metav1.Unix(int64(1_700_000_000+i), 0), Actor: "kubectl-label", Items: map[string]Values{"example.com/label-1": {From: &from, To: &to}}})
	}
	return history
}

func BenchmarkGetPacked(b *testing.B) {
	p := pack(usualRecord(7))
	b.ReportAllocs()
	for b.Loop() {
		require.Len(b, p.record().Items, 10)
	}
}

// BenchmarkCompact is what a cache does with each record that the watch brings.
func BenchmarkCompact(b *testing.B) {
	for name, history := range map[string][]Change{"without a history": nil, "with a full history": manyChanges()} {
		b.Run(name, func(b *testing.B) {
			r := usualRecord(7)
			r.History = history
			data, err := Encode(r)
			require.NoError(b, err)
			cm := &corev1.ConfigMap{Data: map[string]string{DataKey: string(data)}}
			for b.Loop() {
				_, _ = compact(cm)
			}
		})
	}
}

func usualRecord(i int) Record {
	r := Record{Version: Version, Node: fmt.Sprintf("worker-%d", i), NodeResourceVersion: fmt.Sprint(1_000_000 + i), Items: map[string]string{}}
	r.UID = "4a8c52fe-9a3c-4b54-8f6d-0d7e5b3f2a11"
	r.Machine = Machine{ProviderID: fmt.Sprintf("aws:///eu-central-1a/i-%017x", i), SystemUUID: fmt.Sprintf("ec2%05x-9a3c-4b54-8f6d-0d7e5b3f2a11", i)}
	for n := range 10 {
		r.Items[fmt.Sprintf("example.com/label-%d", n)] = fmt.Sprintf("value-%d", i%50+n)
	}
	return r
}

func perRecord(count int, keep func(Record) any) float64 {
	return perItem(count, func(i int) any {
		// As they come: decoded, each with strings of its own.
		data, _ := Encode(usualRecord(i))
		r, _ := decode(data, whole)
		return keep(r)
	})
}

func perItem(count int, keep func(i int) any) float64 {
	kept := make([]any, count)
	before := liveBytes()
	for i := range kept {
		kept[i] = keep(i)
	}
	after := liveBytes()
	runtime.KeepAlive(kept)
	return math.Max(0, float64(after)-float64(before)) / float64(count)
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
	for _, data := range []string{
		`{"version":1,"node":"n"}`, `{"version":2,"node":"n","labels":{"a":"\u0000","":"1"}}`, `{"version":1,"node":"n","uid":"\u0000","labels":{}}`,
		`{"version":1,"node":"n","labels":{"a":"1","b":""},"taints":[{"key":"t","value":"v","effect":"NoSchedule"}],"machine":{"machineID":"m"},"x":1}`,
		`{"version":1,"node":"","later":{"a":null},"withheld":{"labels":{"w":"1"},"y":2},"deletedAt":"2026-05-01T12:00:00Z","early":true}`,
		`{"version":1,"node":"n","labels":{"a":"1","tier":"bronze"},"machine":{"providerID":"p\u0000s\u0000m\u00001\u0000gold","systemUUID":"\u0000"}}`,
		"{\"version\":1,\"node\":\"n\",\"labels\":{\"a\":\"\xff\"},\"machine\":{\"machineID\":\"m\xfe\"},\"\xff\":\"\xff\"}",
		`{"version":1,"node":"n","history":[{"number":1,"time":"2026-05-01T12:00:00Z","labels":{"a":{"to":"1"}}}]}`,
	} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decode(data, inMemory)
		if err != nil {
			return
		}
		if len(r.Items) == 0 {
			r.Items = nil // the same to everybody
		}
		back := pack(r).record()
		if len(back.Items) == 0 {
			back.Items = nil
		}
		assert.Equal(t, r, back)
		assert.Equal(t, r.Node, pack(r).node())
	})
}
