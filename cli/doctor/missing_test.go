package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/store"
)

func TestFactsThatNoNodeHasAreNotes(t *testing.T) {
	seen := healthy(t)
	seen.Nodes.Value.Missing = []impact.MissingFact{{Description: "rule gpu asks for capacity.nvidia.com/gpu, which none of 3 Nodes has", Next: "Correct it:", Commands: []string{"kubectl get nodes"}}}
	assert.Contains(t, notes(t, seen), "note: rule gpu asks for capacity.nvidia.com/gpu, which none of 3 Nodes has")
	assert.Equal(t, StatusOK, resultOf(t, RunChecks(seen, nil), "label-rules").Status)
	assert.Contains(t, resultOf(t, RunChecks(seen, nil), "label-rules").Title, "see the notes below")

	const asks = policytest.Head + `  inventory: [{name: cmdb, url: "https://inventory.internal/v1", attributes: [rack], staleAfter: 24h}]
  labels: {rules: [{name: rack, set: {rack: "{inventory.cmdb.rack}"}}]}
`
	seen = healthy(t)
	noted(t, &seen, inventories.SourceStatus{InForce: "aaaa", Applied: now, Confirmed: now, Nodes: 10, Missing: []string{"rack"}}, "")
	seen.setPolicy(asks)
	in, err := seen.PolicyInForce()
	require.NoError(t, err)
	seen.accepts(map[string]string{store.AcceptedPolicy: inJSON(t, asks), store.RulesInForce: in.RulesHash()})
	assert.Contains(t, notes(t, seen), "note: rule rack asks for inventory.cmdb.rack, which inventory cmdb has of none of its Nodes (10)")
}

func TestWhatRulesAskForIsUnknownWhereNodesAre(t *testing.T) {
	requireFindings(t, map[string]breakage{
		"Nodes cannot be listed": {func(s *Installation) {
			const gpus = policytest.Head + "  labels: {rules: [{name: gpu, when: {capacity: {nvidia.com/gpu: '>=1'}}, set: {gpu: here}}]}\n"
			s.setPolicy(gpus)
			in, err := s.PolicyInForce()
			require.NoError(t, err)
			s.accepts(map[string]string{store.AcceptedPolicy: inJSON(t, gpus), store.RulesInForce: in.RulesHash()})
			s.Nodes = NotKnown[Nodes](Unknown{Reason: "jane may not list nodes", Remedy: newRemedy("Ask for the right.")})
		}, []string{
			"label-rules: unknown: : jane may not list nodes", "gated-nodes: unknown: : jane may not list nodes",
			"closed-nodes: unknown: : jane may not list nodes", "paused-items: unknown: : jane may not list nodes", "claimed-keys: unknown: : jane may not list nodes",
			"not-kept: unknown: : jane may not list nodes", "verification: unknown: ...",
		}},
	})
}
