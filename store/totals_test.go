package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// weighs waits until the records in memory have as many bytes as those of the API server.
func (c *cluster) weighs(nodes ...string) {
	c.t.Helper()
	var all, largest int
	for _, node := range nodes {
		data := c.api.configMap(c.t, namespace, store.Name(node)).Data
		size := len(data[store.DataKey]) + len(data[store.QuarantinedKey]) + len(data[store.EarlierKey])
		all, largest = all+size, max(largest, size)
	}
	require.EventuallyWithT(c.t, func(t *assert.CollectT) {
		assert.Equal(t, []int{all, largest}, []int{c.Totals().Bytes, c.Totals().Largest})
	}, patience, 5*time.Millisecond)
}

func TestBytesAreThoseOfTheRecordsAsTheyAreStored(t *testing.T) {
	c := newCluster(t, configMapOf("node.worker-1", "worker-1"))
	c.weighs("worker-1")
	second := c.put("worker-2", strings.Repeat("x", 63), "")
	c.put("worker-3", "ci", "")
	c.weighs("worker-1", "worker-2", "worker-3")
	second = c.put("worker-2", "ci", second.Version)
	c.weighs("worker-1", "worker-2", "worker-3")
	quarantined := second.Record
	quarantined.Quarantined = &record.Record{Node: "worker-2", Entries: []record.Entry{{Key: "dedicated", Value: "gpu"}}}
	_, err := c.Put(t.Context(), quarantined, second.Version)
	require.NoError(t, err)
	c.weighs("worker-1", "worker-2", "worker-3")
	c.Tamper("worker-3", []byte(strings.Repeat("{", 1000))) // what cannot be read takes room too
	c.weighs("worker-1", "worker-2", "worker-3")
	c.Remove("worker-3")
	c.weighs("worker-1", "worker-2")
	c.Remove("worker-1")
	c.Remove("worker-2")
	c.weighs()
}

func TestTotalsAreRightAfterAWatchThatLostItsEvents(t *testing.T) {
	c := newCluster(t, configMapOf("node.worker-1", "worker-1"), configMapOf("node.worker-2", "worker-2"))
	c.weighs("worker-1", "worker-2")
	c.api.loseEventsAfter(0)
	c.Remove("worker-1")
	c.Tamper("worker-2", []byte("{"))
	c.put("worker-3", "ci", "")
	c.api.breakWatches()
	c.weighs("worker-2", "worker-3")
	assert.Equal(t, []int{1, 1}, []int{c.Totals().Readable, c.Totals().Unreadable})
}
