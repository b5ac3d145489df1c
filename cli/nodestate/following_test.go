package nodestate_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

func TestANodeWithoutARecordShowsWhatItFollows(t *testing.T) {
	inputs := statetest.Under(statetest.Load(t, "machine: {follow: true}"))
	machine := record.Machine{SystemUUID: "4c4c4544-0051-3010-8052-b4c04f4a3132"}
	fn := func(node string, items set, change ...func(*record.Record)) record.Record {
		r := statetest.Recorded(items, change...)
		r.Node, r.Machine = node, machine
		return *r
	}
	gone := statetest.GoneSince(0)
	var plural []record.Record
	for i := range 16 {
		plural = append(plural, fn(fmt.Sprintf("clone-%02d", i), nil, gone))
	}
	liar := fn("b", nil)
	liar.Followed, liar.Machine, liar.Seen[0].Version = "a", record.Machine{MachineID: "another"}, 1_000_000
	write := "this machine was that Node before, and no other record is of this machine"
	two := "the records of 2 Nodes are of this machine, as with cloned images: "
	for name, c := range map[string]struct {
		machine record.Machine
		rest    []record.Record
		want    nodestate.FollowDecision
	}{
		"the only record of its machine": {machine, []record.Record{fn("old", set{"k": "v"}, gone)}, nodestate.FollowDecision{Node: "old", Reason: write}},
		"and what waits then": {
			machine, []record.Record{fn("old", set{"k": "v", "node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": ""}, gone)},
			nodestate.FollowDecision{Node: "old", Reason: write, Waits: []string{"node-role.kubernetes.io/a", "node-role.kubernetes.io/b"}},
		},
		"nothing without a record of its machine": {machine, nil, nodestate.FollowDecision{Reason: "no other record is of this machine"}},
		"nothing without an identity": {
			record.Machine{MachineID: "0000"}, []record.Record{fn("old", nil, gone)},
			nodestate.FollowDecision{Reason: "the Node reports no providerID, systemUUID or machineID that identifies one machine"},
		},
		"nothing of a Node that exists": {
			machine, []record.Record{fn("live", nil)},
			nodestate.FollowDecision{Reason: "node live has the identity of this machine, and its record does not say that it is deleted, or waits for nodekeep accept record"},
		},
		"nothing of two": {machine, plural[:2], nodestate.FollowDecision{Reason: two + "clone-00, clone-01"}},
		"the taints of two": {
			machine, []record.Record{fn("a", set{"k": "v", "tenant:NoExecute": "blue"}, gone), fn("b", nil, gone)},
			nodestate.FollowDecision{Reason: two + "a, b", Taints: []string{"tenant:NoExecute"}},
		},
		"the taints of one that another Node has followed": {
			machine, []record.Record{fn("a", set{"tenant:NoExecute": "blue"}, gone), liar},
			nodestate.FollowDecision{Reason: "a Node that exists has followed the record of node a", Taints: []string{"tenant:NoExecute"}},
		},
		"nothing of many, of which ten are named": {machine, plural, nodestate.FollowDecision{
			Reason: "the records of 16 Nodes are of this machine, as with cloned images: clone-00, clone-01, clone-02, clone-03, clone-04, clone-05, clone-06, clone-07, clone-08, clone-09",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := nodestate.State{Name: "new"}
			require.True(t, s.MayFollow(inputs))
			assert.Equal(t, c.want, *s.WithFollowed(c.machine, c.rest, inputs).FollowDecision)
		})
	}
	found := plural[0]
	assert.False(t, nodestate.State{Name: "new", Record: &found}.MayFollow(inputs), "its own record counts")
	assert.False(t, nodestate.State{Name: "new", Unreadable: assert.AnError}.MayFollow(inputs))
	assert.False(t, nodestate.State{Name: "new"}.MayFollow(statetest.Under(policy.Default())))
	assert.Equal(t, nodestate.FollowDecision{Reason: "not known: forbidden", Unknown: true}, *nodestate.State{}.WithFollowedUnknown("forbidden").FollowDecision)
}
