package observe

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

func ofMachine(of *corev1.Node, systemUUID string) *corev1.Node {
	of.Status.NodeInfo.SystemUUID = systemUUID
	return of
}

func TestARecordIsOfTheMachineThatTheNewestObjectShows(t *testing.T) {
	p := policy.Default()
	r := merged(t, record.Record{}, Of(ofMachine(object("a", 5, labels{"k": "v"}), "m1")), p)
	assert.Equal(t, "n1", r.Node)
	assert.Equal(t, record.Machine{SystemUUID: "m1"}, r.Machine)

	again := merged(t, r, Of(object("b", 9, labels{"k": "v"})), p)
	assert.Equal(t, "m1", again.Machine.SystemUUID, "an object that shows no machine tells nothing")
	again = merged(t, again, Of(ofMachine(object("b", 10, labels{"k": "v"}), "m2")), p)
	assert.Equal(t, record.Machine{SystemUUID: "m2"}, again.Machine)
	late := merged(t, again, Of(ofMachine(object("a", 6, labels{"k": "v"}), "m1")), p)
	assert.Equal(t, "m2", late.Machine.SystemUUID, "an older state does not count")

	cloud := object("b", 11, labels{"k": "v"})
	cloud.Spec.ProviderID = "cloud://1"
	assert.Equal(t, record.Machine{ProviderID: "cloud://1", SystemUUID: "m2"}, merged(t, again, Of(cloud), p).Machine, "what is known is completed")
}

// Otherwise the next registration would find the machine that the label was held back from.
func TestWhileAnIsolationLabelIsHeldBackTheRecordStaysThatOfItsMachine(t *testing.T) {
	const tier = "node-restriction.kubernetes.io/tier"
	p := loaded(t, "labels: {keep: ['*', '"+tier+"']}")
	r := merged(t, record.Record{}, Of(ofMachine(object("a", 5, labels{tier: "gold", "k": "v"}), "m1")), p)
	r = merged(t, r, Of(ofMachine(object("b", 9, labels{"k": "v"}), "m2")), p)
	assert.Equal(t, "m1", r.Machine.SystemUUID)
	assert.Equal(t, "gold", r.Items()[tier])

	labelled := merged(t, r, Of(ofMachine(object("b", 10, labels{tier: "gold", "k": "v"}), "m2")), p)
	assert.Equal(t, "m2", labelled.Machine.SystemUUID, "a client has decided that this machine has it")
	removed := merged(t, labelled, Of(ofMachine(object("b", 11, labels{"k": "v"}), "m3")), p)
	assert.Equal(t, "m3", removed.Machine.SystemUUID, "a client has removed it")
}

func TestWhatAnotherMachineShowsIsKeptApartWhereThePolicyQuarantines(t *testing.T) {
	quarantines := loaded(t, "machine: {onMismatch: quarantine}")
	old := merged(t, record.Record{}, Of(ofMachine(object("a", 5, labels{"k": "v"}), "m1")), quarantines)
	other := Of(ofMachine(object("b", 9, labels{"own": "x"}), "m2"))
	merge := func(r record.Record, n *Node, p policy.Policy) (record.Record, bool) {
		return n.Merge(r, n.Observation(r, p, true), p, now)
	}
	next, isolated := merge(old, other, quarantines)
	assert.True(t, isolated)
	assert.Equal(t, labels{"own": "x"}, next.Items())
	assert.Equal(t, "m2", next.Machine.SystemUUID)
	require.NotNil(t, next.Quarantined)
	assert.Equal(t, labels{"k": "v"}, next.Quarantined.Items())
	assert.Empty(t, history.Of(next), "of two machines under one name each has a history of its own")

	again, isolated := merge(next, Of(ofMachine(object("b", 10, labels{"own": "y"}), "m2")), quarantines)
	assert.False(t, isolated, "it is isolated once")
	assert.Equal(t, labels{"k": "v"}, again.Quarantined.Items())
	assert.Equal(t, []string{`1: 0s ago "" {"own":{"from":"x","to":"y"}}`}, told(history.Of(again)))

	late, isolated := merge(next, Of(ofMachine(object("a", 6, labels{"k": "late"}), "m1")), quarantines)
	assert.False(t, isolated)
	assert.Equal(t, labels{"k": "late"}, late.Quarantined.Items(), "the last state of the machine before is that machine's")
	assert.Equal(t, labels{"own": "x"}, late.Items())

	for name, c := range map[string]struct {
		node   *Node
		policy policy.Policy
	}{
		"the policy restores":                   {other, policy.Default()},
		"it is the same machine":                {Of(ofMachine(object("b", 9, nil), "m1")), quarantines},
		"the machine is not known":              {Of(object("b", 9, nil)), quarantines},
		"it is the object itself":               {Of(ofMachine(object("a", 9, nil), "m2")), quarantines},
		"it is an object that was there before": {Of(ofMachine(object("b", 3, nil), "m2")), quarantines},
	} {
		t.Run(name, func(t *testing.T) {
			_, isolated := merge(old, c.node, c.policy)
			assert.False(t, isolated)
		})
	}
}
