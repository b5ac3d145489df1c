package inventories

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
func (p *process) lists(names ...string) {
	p.t.Helper()
	var nodes []string
	for _, name := range names {
		nodes = append(nodes, fmt.Sprintf(`{"name":%q,"systemUUID":"uuid-%s","attributes":{"rack":"r7"}}`, name, name))
	}
	source := p.policy.Inventory()[0]
	snapshot, err := inventory.Decode(json.NewDecoder(strings.NewReader(documentOf(nodes))), source)
	require.NoError(p.t, err)
	st := p.stateOf(source)
	p.noteAnswer(st, p.Now())
	p.putInForce(st, snapshot)
}

func documentOf(nodes []string) string {
	return `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"Inventory","nodes":[` + strings.Join(nodes, ",") + `]}`
}

func unpaced(context.Context) error { return nil }

func TestNoMoreRecordsAreWrittenAheadThanTheBound(t *testing.T) {
	p := newProcess(t, listedRacks)
	for i := range maxPreloaded - 1 {
		p.holds(record.Record{Node: fmt.Sprintf("before-%d", i), RuleLabels: map[string]record.RuleLabel{"example.com/rack": {Value: "r1", Rule: "rack"}}})
	}
	p.lists("ahead-1", "ahead-2", "ahead-3")
	require.NoError(t, p.preloadOnce(t.Context(), unpaced))
	assert.Equal(t, maxPreloaded, p.countPreloaded())
	assert.Equal(t, []string{"put ahead-1"}, p.wrote())
}

func TestARecordOfAMachineInQuarantineIsNotWrittenOver(t *testing.T) {
	p := newProcess(t, listedRacks+"machine: {onMismatch: quarantine}\n")
	old := record.Record{
		Node: "n1", Seen: []record.Object{{UID: "a", Version: 10}}, Entries: []record.Entry{{Key: "k", Value: "v", Version: 10}}, DeletedAt: truncateToSecond(now.Add(-time.Hour)),
	}
	isolated := record.Merge(record.Isolate(old, record.Machine{SystemUUID: "other"}, 19, record.EarlierRetention{}), record.Observation{UID: "b", Version: 20})
	p.holds(isolated)
	prev := p.record()
	p.lists("n1")
	require.NoError(t, p.preloadOnce(t.Context(), unpaced))
	assert.Empty(t, p.wrote())
	assert.Equal(t, prev, p.record())
}

func TestFactsOfAnInventoryCountUntilTheyAreStale(t *testing.T) {
	p := newProcess(t, listedRacks)
	assert.False(t, p.Known(p.policy), "it was never read")
	p.lists("n1")
	facts := func() map[string]map[string]string { return p.facts(p.policy, "n1", "uuid-n1", nil) }
	p.passes(p.policy.Inventory()[0].StaleAfter)
	assert.Equal(t, map[string]map[string]string{"cmdb": {"rack": "r7"}}, facts())
	assert.True(t, p.Known(p.policy))
	p.passes(time.Second)
	assert.Empty(t, facts())
	assert.False(t, p.Known(p.policy))
	require.NoError(t, p.preloadOnce(t.Context(), unpaced))
	assert.Empty(t, p.wrote(), "and no record is written ahead from it")
}
