package view

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

func TestANodeWithoutARecordShowsWhatItFollows(t *testing.T) {
	in := under(load(t, "machine: {follow: true}"))
	machine := record.Machine{SystemUUID: "4c4c4544-0051-3010-8052-b4c04f4a3132"}
	of := func(node string, items set, change ...func(*record.Record)) record.Record {
		r := recorded(items, change...)
		r.Node, r.Machine = node, machine
		return *r
	}
	gone := goneSince(0)
	var many []record.Record
	for i := range 16 {
		many = append(many, of(fmt.Sprintf("clone-%02d", i), nil, gone))
	}
	liar := of("b", nil)
	liar.Followed, liar.Machine, liar.Seen[0].Version = "a", record.Machine{MachineID: "another"}, 1_000_000
	for name, c := range map[string]struct {
		machine record.Machine
		others  []record.Record
		want    string
	}{
		"the only record of its machine": {machine, []record.Record{of("old", set{"k": "v"}, gone)},
			"the record of node old: this machine was that Node before, and no other record is of this machine"},
		"and what waits then": {machine, []record.Record{of("old", set{"k": "v", "node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": ""}, gone)},
			"the record of node old: this machine was that Node before, and no other record is of this machine; waits for nodekeep accept then: node-role.kubernetes.io/a, node-role.kubernetes.io/b"},
		"nothing without a record of its machine": {machine, nil, "nothing: no other record is of this machine"},
		"nothing without an identity":             {record.Machine{MachineID: "0000"}, []record.Record{of("old", nil, gone)}, "nothing: the Node reports no providerID, systemUUID or machineID that identifies one machine"},
		"nothing of a Node that exists": {machine, []record.Record{of("live", nil)},
			"nothing: node live has the identity of this machine, and its record does not say that it is deleted, or waits for nodekeep accept"},
		"nothing of two": {machine, many[:2], "nothing: the records of 2 Nodes are of this machine, as with cloned images: clone-00, clone-01"},
		"the taints of two": {machine, []record.Record{of("a", set{"k": "v", "tenant:NoExecute": "blue"}, gone), of("b", nil, gone)},
			"taints alone (tenant:NoExecute): the records of 2 Nodes are of this machine, as with cloned images: a, b"},
		"the taints of one that another Node has followed": {machine, []record.Record{of("a", set{"tenant:NoExecute": "blue"}, gone), liar}, "taints alone (tenant:NoExecute): a Node that exists has followed the record of node a"},
		"nothing of many, of which ten are named": {machine, many,
			"nothing: the records of 16 Nodes are of this machine, as with cloned images: clone-00, clone-01, clone-02, clone-03, clone-04, clone-05, clone-06, clone-07, clone-08, clone-09"},
	} {
		t.Run(name, func(t *testing.T) {
			s := NodeState{Name: "new"}
			require.True(t, s.MayFollow(in))
			assert.Equal(t, c.want, s.Following(c.machine, c.others, in).Follows.text())
		})
	}
	has := many[0]
	assert.False(t, NodeState{Name: "new", Record: &has}.MayFollow(in), "its own record counts")
	assert.False(t, NodeState{Name: "new", Unreadable: assert.AnError}.MayFollow(in))
	assert.False(t, NodeState{Name: "new"}.MayFollow(under(policy.Default())))
	assert.Equal(t, "not known: forbidden", NodeState{}.FollowingUnknown("forbidden").Follows.text())
}
