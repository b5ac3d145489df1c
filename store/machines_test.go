package store_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// ofMachine returns what is stored for a Node on a machine.
func ofMachine(node, machine, followed string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: store.Name(node), Namespace: namespace, Labels: map[string]string{store.RecordLabel: "true"}},
		Data: map[string]string{store.DataKey: fmt.Sprintf(
			`{"version": 1, "node": %q, "uid": "1", "machine": {"systemUUID": %q}, "followed": %q, "labels": {"dedicated": "ci"}}`, node, machine, followed)},
	}
}

func machineOf(number int) string { return fmt.Sprintf("5f2c8a1e-77b0-4d1a-9c3e-%012x", number) }

func machine(number int) record.Machine { return record.Machine{SystemUUID: machineOf(number)} }

// finds waits until the records of a machine are those of the Nodes.
func (c *cluster) finds(m record.Machine, nodes ...string) {
	c.t.Helper()
	require.EventuallyWithT(c.t, func(t *assert.CollectT) {
		records, err := c.ListByMachine(m)
		require.NoError(t, err)
		var found []string
		for _, r := range records {
			found = append(found, r.Node)
		}
		assert.ElementsMatch(t, nodes, found)
	}, patience, 5*time.Millisecond)
}

func TestTheRecordsOfAMachineAreFoundByItsIdentifiers(t *testing.T) {
	var shared []*corev1.ConfigMap
	for i := range 17 {
		shared = append(shared, ofMachine(fmt.Sprintf("clone-%d", i), machineOf(99), ""))
	}
	c := newCluster(t, append(shared,
		ofMachine("alone", machineOf(1), ""),
		ofMachine("twin-a", machineOf(2), ""), ofMachine("twin-b", machineOf(2), ""),
		ofMachine("before", machineOf(3), ""), ofMachine("after", machineOf(4), "before"),
		ofMachine("zeros", "00000000-0000-0000-0000-000000000000", ""),
	)...)
	_, err := c.ListByMachine(machine(1))
	require.ErrorContains(t, err, "not indexed by machine", "without the index nothing can be said")
	require.NoError(t, c.IndexMachines())
	require.NoError(t, c.IndexMachines(), "a policy can turn it on again")

	c.finds(machine(1), "alone")
	c.finds(machine(2), "twin-a", "twin-b")
	c.finds(machine(3), "before", "after")
	c.finds(machine(5))
	c.finds(record.Machine{})
	c.finds(record.Machine{SystemUUID: "00000000-0000-0000-0000-000000000000"})
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		records, err := c.ListByMachine(machine(99))
		require.NoError(t, err)
		assert.Len(t, records, 16)
	}, patience, 5*time.Millisecond, "16 are looked at")
	c.finds(record.Machine{ProviderID: machineOf(1)})

	c.edit("alone", func(cm *corev1.ConfigMap) { cm.Data = ofMachine("alone", machineOf(5), "").Data })
	c.finds(machine(5), "alone")
	c.finds(machine(1))
	c.edit("alone", func(cm *corev1.ConfigMap) { cm.Data[store.DataKey] = "{" })
	c.finds(machine(5))
}

func TestTheRecordsOfAMachineAreFoundAsSoonAsTheyAreWritten(t *testing.T) {
	c := newCluster(t, ofMachine("before", machineOf(1), ""))
	require.NoError(t, c.IndexMachines())
	c.finds(machine(1), "before")
	release := c.api.holdWatches(t)
	defer release()
	_, err := c.Put(t.Context(), record.Record{Node: "after", Machine: machine(1), Followed: "before"}, "")
	require.NoError(t, err)
	records, err := c.ListByMachine(machine(1))
	require.NoError(t, err)
	assert.Len(t, records, 2, "a second Node that says it is this machine must not follow the same record")
}

// BenchmarkOfMachine is a look for the records of a machine among 100,000, compared with reading one by its name. No machine has a record; one
// has; all share an identifier, as where an image was cloned.
func BenchmarkOfMachine(b *testing.B) {
	const plural = 100_000
	for name, number := range map[string]func(int) int{"each its own": func(i int) int { return i }, "one for all": func(int) int { return 1 }} {
		b.Run(name, func(b *testing.B) {
			records := store.LoadedForTest(b, plural, func(i int) *corev1.ConfigMap { return ofMachine(fmt.Sprintf("node-%d", i), machineOf(number(i)), "") })
			prev := heap()
			started := time.Now()
			require.NoError(b, records.IndexMachines())
			records.IndexForTest()
			indexing := time.Since(started)
			perRecord := float64(heap()-prev) / plural
			b.Run("by name", func(b *testing.B) {
				for b.Loop() {
					_, err := records.Get("node-7")
					require.NoError(b, err)
				}
			})
			b.Run("by machine", func(b *testing.B) {
				for b.Loop() {
					_, err := records.ListByMachine(machine(1))
					require.NoError(b, err)
				}
				b.ReportMetric(perRecord, "index-bytes/record")
				b.ReportMetric(indexing.Seconds()*1000, "indexing-ms")
			})
		})
	}
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
