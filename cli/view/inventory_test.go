package view

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/inventory"
)

func TestAnExplanationShowsTheAgeOfFactsOfInventories(t *testing.T) {
	p := statetest.Load(t, `labels: {rules: [{name: rack, set: {example.com/rack: "{inventory.cmdb.rack}"}}]}
inventory:
- {name: cmdb, file: /var/run/nodekeep/a, attributes: [rack]}
- {name: late, file: /var/run/nodekeep/b, attributes: [rack], staleAfter: 1h}
- {name: never, file: /var/run/nodekeep/c, attributes: [rack]}
`)
	notes := &corev1.ConfigMap{Data: map[string]string{}}
	for source, status := range map[string]inventories.SourceStatus{
		"cmdb": {InForce: "aa", Applied: now.Add(-72 * time.Hour), Confirmed: now.Add(-5 * time.Minute), Nodes: 10, Held: "bb"},
		"late": {InForce: "cc", Applied: now.Add(-72 * time.Hour), Confirmed: now.Add(-2 * time.Hour), Nodes: 3, Failure: "timeout"},
	} {
		content, err := json.Marshal(status)
		require.NoError(t, err)
		notes.Data[source] = string(content)
	}
	e := Explanation{Inventories: InventoriesOf("n1", notes, p, now)}
	assert.Contains(t, text(e.Document(now)), `Inventory|Age of facts|In force|Since|Nodes|State
cmdb|5m|aa|3d|10|snapshot|bb|is|held|until|nodekeep|accept|rules
late|120m|cc|3d|3|stale:|rules|do|not|know|its|facts,|and|labels|stay;|cannot|be|read|(timeout)
never|-|-|-|0|not|read|yet:|rules|do|not|know|its|facts`)
	content, err := json.Marshal(e)
	require.NoError(t, err)
	assert.Contains(t, string(content), `"source":"late","inForce":"cc"`, "programs see it, too")
	assert.Empty(t, InventoriesOf("n1", notes, statetest.Load(t, "inventory: [{name: cmdb, file: /var/run/nodekeep/a, attributes: [rack]}]"), now), "no rule looks at it")
}

func TestAnExplanationShowsWhatAnInventoryHasWrongOfTheNode(t *testing.T) {
	p := statetest.Load(t, `labels: {rules: [{name: rack, set: {example.com/rack: "{inventory.cmdb.rack}"}}]}
inventory: [{name: cmdb, file: /var/run/nodekeep/a, attributes: [rack]}]
`)
	explained := func(node string, wrong int) string {
		content, err := json.Marshal(inventories.SourceStatus{
			InForce: "aa", Applied: now, Confirmed: now, Nodes: 3, ProblemCount: wrong, Problems: []inventory.Problem{{Node: "n0", Message: "attribute rack must be a string"}, {Node: "n1", Message: `systemUUID is "b2"`}},
		})
		require.NoError(t, err)
		e := Explanation{Inventories: InventoriesOf(node, &corev1.ConfigMap{Data: map[string]string{"cmdb": string(content)}}, p, now)}
		printed, err := json.Marshal(e)
		require.NoError(t, err)
		return text(e.Document(now)) + string(printed)
	}
	n1 := explained("n1", 2)
	assert.Contains(t, n1, `cmdb|0s|aa|0s|3|wrong|about|this|Node:|systemUUID|is|"b2"`)
	assert.Contains(t, n1, `"problem":"systemUUID is \"b2\""`)
	assert.NotContains(t, n1, "n0", "another Node's problem")
	assert.Contains(t, explained("n2", 2), "cmdb|0s|aa|0s|3|-")
	assert.Contains(t, explained("n2", 7), "cmdb|0s|aa|0s|3|wrong|about|this|Node:|not|known:|5|more|problems|than|capture|notes")
}

func TestARecordAndAnExplanationShowTheRulesOfGovernanceThatTheNodeBreaks(t *testing.T) {
	p := statetest.Load(t, "governance: {keys: [{key: tier, values: [gold], mode: deny}, {key: site, required: true}]}")
	want := []string{`label tier has the value "iron", which is not one of its values (deny)`, "label site is required and missing (audit)"}
	s := statetest.State(statetest.Live(set{"tier": "iron"}), statetest.Recorded(set{"tier": "gold"}))
	r, err := RecordOf(s, "ns", statetest.Under(p))
	require.NoError(t, err)
	assert.Equal(t, want, r.Violations)
	assert.Contains(t, text(r.Document(now)), "Governance: "+want[0]+"; "+want[1])
	assert.Equal(t, want, explained(t, s, statetest.Under(p)).Violations)

	unknown := statetest.Load(t, "labels: {rules: [{name: gpu, when: {devices: {driver: gpu.nvidia.com}}, set: {site: a}}]}\ngovernance: {keys: [{key: site, required: true}]}")
	r, err = RecordOf(s, "ns", statetest.Under(unknown))
	require.NoError(t, err)
	assert.Empty(t, r.Violations, "the devices are not known, so the rule may still set the label")
	assert.Empty(t, explained(t, s, statetest.Under(unknown)).Violations)

	deleted, err := RecordOf(statetest.State(nil, statetest.Recorded(set{"tier": "iron"}, statetest.GoneSince(time.Hour))), "ns", statetest.Under(p))
	require.NoError(t, err)
	assert.Empty(t, deleted.Violations, "a Node that is deleted breaks no rule")
}
