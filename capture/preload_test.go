package capture

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/inventory"
	"nodekeep.dev/nodekeep/record"
)

const listedRacks = `labels: {rules: [{name: rack, set: {example.com/rack: "{inventory.cmdb.rack}"}}]}
inventory: [{name: cmdb, file: /var/run/nodekeep/inventory.json, attributes: [rack], preload: true}]
`

// lists puts a snapshot of Nodes in force, each of a machine of its own.
func (r *replica) lists(names ...string) {
	r.cluster.t.Helper()
	var nodes []string
	for _, name := range names {
		nodes = append(nodes, fmt.Sprintf(`{"name":%q,"systemUUID":"uuid-%s","attributes":{"rack":"r7"}}`, name, name))
	}
	source := r.Policy().Inventory()[0]
	snapshot, err := inventory.Decode(json.NewDecoder(strings.NewReader(documentOf(nodes))), source)
	require.NoError(r.cluster.t, err)
	state := r.inventories.state(source)
	r.inventories.answered(state, r.Now())
	r.inventories.put(state, snapshot)
}

func documentOf(nodes []string) string {
	return `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"Inventory","nodes":[` + strings.Join(nodes, ",") + `]}`
}

func unpaced(context.Context) error { return nil }

func TestNoMoreRecordsAreWrittenAheadThanTheBound(t *testing.T) {
	w := newCluster(t, listedRacks)
	for i := range mostPreloaded - 1 {
		w.holds(&record.Record{Node: fmt.Sprintf("before-%d", i), Derived: map[string]record.Derived{"example.com/rack": {Value: "r1", Rule: "rack"}}})
	}
	r := w.leader()
	r.lists("ahead-1", "ahead-2", "ahead-3")
	require.NoError(t, r.preload(t.Context(), unpaced))
	assert.Equal(t, mostPreloaded, r.countPreloaded())
	assert.Equal(t, []string{"put ahead-1"}, r.wrote())
}

func TestARecordOfAMachineInQuarantineIsNotWrittenOver(t *testing.T) {
	w := newCluster(t, listedRacks+"machine: {onMismatch: quarantine}\n")
	old := remembered("a", 10, labels{"k": "v"}, goneSince(earlier))
	isolated := record.Merge(record.Isolate(*old, record.Machine{SystemUUID: "other"}, 19, record.Keeping{}), record.Observation{UID: "b", Version: 20})
	w.holds(&isolated)
	before := w.record()
	r := w.leader()
	r.lists("n1")
	require.NoError(t, r.preload(t.Context(), unpaced))
	assert.Empty(t, r.wrote())
	assert.Equal(t, before, w.record())
}

func TestFactsOfAnInventoryCountUntilTheyAreStale(t *testing.T) {
	w := newCluster(t, listedRacks)
	r := w.leader()
	assert.False(t, r.inventories.known(w.policy, r.Now()), "it was never read")
	r.lists("n1")
	facts := func() map[string]map[string]string { return r.inventories.of(w.policy, "n1", "uuid-n1", r.Now(), nil) }
	w.passes(w.policy.Inventory()[0].StaleAfter)
	assert.Equal(t, map[string]map[string]string{"cmdb": {"rack": "r7"}}, facts())
	assert.True(t, r.inventories.known(w.policy, r.Now()))
	w.passes(time.Second)
	assert.Empty(t, facts())
	assert.False(t, r.inventories.known(w.policy, r.Now()))
	require.NoError(t, r.preload(t.Context(), unpaced))
	assert.Empty(t, r.wrote(), "and no record is written ahead from it")
}
