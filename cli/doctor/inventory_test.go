package doctor

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/inventory"
	"nodekeep.dev/nodekeep/policy/policytest"
)

const sourced = policytest.Head + `  inventory: [{name: cmdb, url: "https://inventory.internal/v1", attributes: [rack], staleAfter: 24h}]
`

// noted has capture note this of the source.
func noted(t *testing.T, seen *Installation, status inventories.SourceStatus, accepted string) {
	t.Helper()
	text, err := json.Marshal(status)
	require.NoError(t, err)
	seen.setPolicy(sourced)
	seen.Inventory = Found(&corev1.ConfigMap{Data: map[string]string{"cmdb": string(text), inventories.AcceptedKey("cmdb"): accepted}})
}

func TestFindingsOfInventories(t *testing.T) {
	const item = "inventory: warning: configmap/nodekeep-inventory: inventory cmdb: "
	fresh := inventories.SourceStatus{InForce: "aaaa", Applied: now.Add(-time.Hour), Confirmed: now.Add(-5 * time.Minute), Nodes: 10}
	replacement := func(change func(*inventories.SourceStatus)) inventories.SourceStatus {
		status := fresh
		change(&status)
		return status
	}
	held := replacement(func(n *inventories.SourceStatus) {
		n.Held, n.Change = "bbbb", inventory.Change{Lost: 5, Listed: 10, Altered: 4, Nodes: 12}
	})
	requireFindings(t, map[string]breakage{
		"it was read": {func(s *Installation) { noted(t, s, fresh, "") }, nil},
		"capture has not read it yet": {
			func(s *Installation) { s.setPolicy(sourced) },
			[]string{item + "capture has not read it yet: rules do not know its facts"},
		},
		"its note is spoilt": {
			func(s *Installation) {
				s.setPolicy(sourced)
				s.Inventory = Found(&corev1.ConfigMap{Data: map[string]string{"cmdb": "{"}})
			},
			[]string{item + "what capture notes of it cannot be read, so its state is not known"},
		},
		"it fails": {
			func(s *Installation) {
				noted(t, s, replacement(func(n *inventories.SourceStatus) { n.Failure = "timeout" }), "")
			},
			[]string{item + "it cannot be read (timeout); what it said last stays in force until it is stale"},
		},
		"it fails, and is stale": {
			func(s *Installation) {
				noted(t, s, replacement(func(n *inventories.SourceStatus) { n.Failure, n.Confirmed = "connect", now.Add(-30*time.Hour) }), "")
			},
			[]string{
				item + "it cannot be read (connect); what it said last stays in force until it is stale",
				item + "it last said 30h ago what is in force, which is longer than staleAfter (24h): rules do not know its facts, and their labels stay as they are",
			},
		},
		"it was never in force": {
			func(s *Installation) { noted(t, s, inventories.SourceStatus{Failure: "status"}, "") },
			[]string{
				item + "it cannot be read (status); what it said last stays in force until it is stale",
				item + "nothing of it is in force: rules do not know its facts",
			},
		},
		"a snapshot is held": {
			func(s *Installation) { noted(t, s, held, "aaaa") },
			[]string{item + "snapshot bbbb is held: it no longer lists 5 of 10 Nodes, and would remove or change labels on 4 of 12 Nodes that live. What it said before stays in force"},
		},
		"it has something wrong": {
			func(s *Installation) {
				noted(t, s, replacement(func(n *inventories.SourceStatus) {
					n.ProblemCount, n.Problems = 2, []inventory.Problem{{Message: "entries that name no Node: 1, such as nodes[0]: name is missing"}, {Node: "n1", Message: `systemUUID is "b2", and the Node reports "a1"`}}
				}), "")
			},
			[]string{
				"inventory: warning: : inventory cmdb is wrong: entries that name no Node: 1, such as nodes[0]: name is missing",
				`inventory: warning: node/n1: inventory cmdb is wrong: systemUUID is "b2", and the Node reports "a1"`,
			},
		},
		"it has much wrong": {
			func(s *Installation) {
				noted(t, s, replacement(func(n *inventories.SourceStatus) {
					n.ProblemCount, n.Problems = 500, slices.Repeat([]inventory.Problem{{Node: "n1", Message: "wrong"}}, 100)
				}), "")
			},
			append(slices.Repeat([]string{"inventory: warning: node/n1: inventory cmdb is wrong: wrong"}, 10), "inventory: warning: : 490 more problems of inventory cmdb"),
		},
		"the held snapshot is accepted": {func(s *Installation) { noted(t, s, held, "bbbb") }, nil},
		"the policy no longer has the source": {
			func(s *Installation) {
				noted(t, s, held, "")
				s.setPolicy(policytest.Head)
			}, nil,
		},
	})
}
