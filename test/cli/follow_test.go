package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

const (
	followed = "machine: {follow: true}"
	machineA = "4c4c4544-0051-3010-8052-b4c04f4a3132"
	machineB = "9e3a1f70-77aa-4d0e-a8c1-0b5d52f1c9aa"
	machineC = "b0a7f3d2-1c5e-4a68-9f07-6d21e8c4035b"
)

// onMachine makes it the record of a machine in a rack.
func onMachine(machine string) func(*record.Record) {
	return func(r *record.Record) {
		r.Machine.SystemUUID = machine
		r.Entries = record.New(r.Node, r.Newest(), map[string]string{"rack": "r1", "tenant:NoSchedule": "blue"}).Entries
	}
}

// holding has a record remember a label that no kubelet may set.
func holding(r *record.Record) {
	items := r.Items()
	items["node-role.kubernetes.io/worker"] = ""
	r.Entries = record.New(r.Node, r.Newest(), items).Entries
}

// waiting is a record that followed another one, of which a label waits.
func waiting(r *record.Record) {
	held := record.New(r.Node, record.Object{}, map[string]string{"node-role.kubernetes.io/worker": ""})
	held.Machine = r.Machine
	r.Followed, r.Quarantined = "follow-before", &held
}

func TestShowAndExplainNameWhatANodeFollowedAndWhatWaits(t *testing.T) {
	goneFor(t, "follow-done", 0, onMachine(machineA), func(r *record.Record) { r.Followed = "follow-before" })
	goneFor(t, "follow-waits", 0, onMachine(machineA), waiting)
	for _, name := range []string{"follow-done", "follow-waits"} {
		requireGolden(t, "show-"+name, run(t, "show", name).RequireDone(t).Out)
		requireGolden(t, "explain-"+name, run(t, "explain", name).RequireDone(t).Out)
	}
}

func TestExplainForetellsWhatANodeWithoutARecordFollows(t *testing.T) {
	node := harness.Registration("follow-new")
	node.Spec.Taints = nil
	node.Status.NodeInfo.SystemUUID, node.Status.NodeInfo.MachineID = machineB, ""
	registerNode(t, node)
	policy := policyFile(t, followed)
	assert.Empty(t, explanation(t, "follow-new").Follows, "the policy follows none")
	assert.Equal(t, "no other record is of this machine", explanation(t, "follow-new", "--policy", policy).Follows.Why)

	goneFor(t, "follow-gone", 0, onMachine(machineB), holding)
	requireGolden(t, "explain-follows", run(t, "explain", "follow-new", "--policy", policy).RequireDone(t).Out)
	f := explanation(t, "follow-new", "--policy", policy)
	assert.Equal(t, "follow-gone", f.Follows.Node)
	assert.Equal(t, []string{"node-role.kubernetes.io/worker"}, f.Follows.Waits)
	assert.True(t, f.Registration.Gated)

	goneFor(t, "follow-clone", 0, onMachine(machineB))
	requireGolden(t, "explain-follows-none", run(t, "explain", "follow-new", "--policy", policy).RequireDone(t).Out)

	t.Log("a review, of a Node that does not exist")
	goneFor(t, "follow-review", 0, onMachine(machineC))
	review := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"version":"v1","kind":"Node"},"resource":{"version":"v1","resource":"nodes"},
		"name":"follow-next","operation":"CREATE","userInfo":{"username":"system:node:follow-next","groups":["system:nodes"]},
		"object":{"metadata":{"name":"follow-next"},"status":{"nodeInfo":{"systemUUID":"` + machineC + `"}}}}}`
	args := []string{"explain", "--review", "-", "--policy", policy}
	f = explained{}
	require.NoError(t, json.Unmarshal([]byte(answering(t, review, append(args, "-o", "json")...).RequireDone(t).Out), &f))
	assert.Equal(t, "follow-review", f.Follows.Node)
	assert.Contains(t, answering(t, review, append(args, "--offline")...).RequireDone(t).Out, "not known: records are not read with --offline")
}
