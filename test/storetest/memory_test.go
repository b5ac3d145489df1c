package storetest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/storetest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	storetest.Contract(t, func(*testing.T) storetest.Store { return &storetest.Memory{} })
}

func TestMemoryNamesItsNodes(t *testing.T) {
	var records storetest.Memory
	assert.Empty(t, records.NodeNames())
	for _, node := range []string{"worker-1", "worker-2", "worker-3"} {
		_, err := records.Put(t.Context(), record.Record{Node: node}, "")
		require.NoError(t, err)
	}
	records.Remove("worker-3")
	records.Tamper("worker-4", []byte("{"))
	assert.ElementsMatch(t, []string{"worker-1", "worker-2"}, records.NodeNames())
}
