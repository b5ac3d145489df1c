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

func ofMachine(item *corev1.Node, systemUUID string) *corev1.Node {
	item.Status.NodeInfo.SystemUUID = systemUUID
	return item
}

func TestARecordIsOfTheMachineThatTheNewestObjectShows(t *testing.T) {
	p := policy.Default()
	r := merged(t, record.Record{}, FromNode(ofMachine(object("a", 5, labels{"k": "v"}), "m1")), p)
	assert.Equal(t, "n1", r.Node)
	assert.Equal(t, record.Machine{SystemUUID: "m1"}, r.Machine)

	reread := merged(t, r, FromNode(object("b", 9, labels{"k": "v"})), p)
	assert.Equal(t, "m1", reread.Machine.SystemUUID, "an object that shows no machine proves nothing")
	reread = merged(t, reread, FromNode(ofMachine(object("b", 10, labels{"k": "v"}), "m2")), p)
	assert.Equal(t, record.Machine{SystemUUID: "m2"}, reread.Machine)
	late := merged(t, reread, FromNode(ofMachine(object("a", 6, labels{"k": "v"}), "m1")), p)
	assert.Equal(t, "m2", late.Machine.SystemUUID, "an older state does not count")

	assert.Equal(t, record.Version(10), reread.MachineSince, "it has claimed another machine before")
	assert.Zero(t, merged(t, reread, FromNode(ofMachine(object("c", 12, labels{"k": "v"}), "m3")), p).MachineSince, "a new object claims it from the beginning")
	kept := merged(t, reread, FromNode(ofMachine(object("b", 12, labels{"k": "w"}), "m2")), p)
	assert.Equal(t, record.Version(10), kept.MachineSince)
	data, err := record.Encode(kept)
	require.NoError(t, err)
	read, err := record.Decode(data)
	require.NoError(t, err)
	assert.Equal(t, record.Version(10), read.MachineSince)

	cloud := object("b", 11, labels{"k": "v"})
	cloud.Spec.ProviderID = "cloud://1"
	assert.Equal(t, record.Machine{ProviderID: "cloud://1", SystemUUID: "m2"}, merged(t, reread, FromNode(cloud), p).Machine, "what is known is completed")
}

// Otherwise the next registration would find the machine that the label was held back from.
func TestWhileAnIsolationLabelIsHeldBackTheRecordStaysThatOfItsMachine(t *testing.T) {
	const tier = "node-restriction.kubernetes.io/tier"
	p := loaded(t, "labels: {keep: ['*', '"+tier+"']}")
	r := merged(t, record.Record{}, FromNode(ofMachine(object("a", 5, labels{tier: "gold", "k": "v"}), "m1")), p)
	r = merged(t, r, FromNode(ofMachine(object("b", 9, labels{"k": "v"}), "m2")), p)
	assert.Equal(t, "m1", r.Machine.SystemUUID)
	assert.Equal(t, "gold", r.Items()[tier])

	labelled := merged(t, r, FromNode(ofMachine(object("b", 10, labels{tier: "gold", "k": "v"}), "m2")), p)
	assert.Equal(t, "m2", labelled.Machine.SystemUUID, "a client has decided that this machine has it")
	removed := merged(t, labelled, FromNode(ofMachine(object("b", 11, labels{"k": "v"}), "m3")), p)
	assert.Equal(t, "m3", removed.Machine.SystemUUID, "a client has removed it")
}

func TestWhatAnotherMachineShowsIsKeptApartWhereThePolicyQuarantines(t *testing.T) {
	quarantines := loaded(t, "machine: {onMismatch: quarantine}")
	old := merged(t, record.Record{}, FromNode(ofMachine(object("a", 5, labels{"k": "v"}), "m1")), quarantines)
	o := FromNode(ofMachine(object("b", 9, labels{"own": "x"}), "m2"))
	merge := func(r record.Record, n *Node, p policy.Policy) (next record.Record, isolated bool) {
		current, transition := n.Transition(r, p, now)
		return n.Merge(current, n.Observation(current, p, true), p, now), transition == policy.Isolates
	}
	next, isolated := merge(old, o, quarantines)
	assert.True(t, isolated)
	assert.Equal(t, labels{"own": "x"}, next.Items())
	assert.Equal(t, "m2", next.Machine.SystemUUID)
	require.NotNil(t, next.Quarantined)
	assert.Equal(t, labels{"k": "v"}, next.Quarantined.Items())
	assert.Empty(t, history.Changes(next), "of two machines under one name each has a history of its own")

	reread, isolated := merge(next, FromNode(ofMachine(object("b", 10, labels{"own": "y"}), "m2")), quarantines)
	assert.False(t, isolated, "it is isolated once")
	assert.Equal(t, labels{"k": "v"}, reread.Quarantined.Items())
	assert.Equal(t, []string{`1: 0s ago "" {"own":{"from":"x","to":"y"}}`}, lines(history.Changes(reread)))

	late, isolated := merge(next, FromNode(ofMachine(object("a", 6, labels{"k": "late"}), "m1")), quarantines)
	assert.False(t, isolated)
	assert.Equal(t, labels{"k": "late"}, late.Quarantined.Items(), "the last state of the machine before is that machine's")
	assert.Equal(t, labels{"own": "x"}, late.Items())

	for name, c := range map[string]struct {
		node   *Node
		policy policy.Policy
	}{
		"the policy restores":                   {o, policy.Default()},
		"it is the same machine":                {FromNode(ofMachine(object("b", 9, nil), "m1")), quarantines},
		"the machine is not known":              {FromNode(object("b", 9, nil)), quarantines},
		"it is the object itself":               {FromNode(ofMachine(object("a", 9, nil), "m2")), quarantines},
		"it is an object that was there before": {FromNode(ofMachine(object("b", 3, nil), "m2")), quarantines},
	} {
		t.Run(name, func(t *testing.T) {
			_, isolated := merge(old, c.node, c.policy)
			assert.False(t, isolated)
		})
	}
}

// A zone on bare metal: the catalogue says that the cloud controller manager sets it, and here an operator does.
func TestTheRecordFollowsWhoSetsALabelThatAComponentUsuallySets(t *testing.T) {
	const zone, app = "topology.kubernetes.io/zone", "app.kubernetes.io/name" // a kubelet may set the first
	p := policy.Default()
	operators := wrote("kubectl-label", 1, zone, app)
	recorded := merged(t, record.Record{}, FromNode(object("a", 5, labels{zone: "z1", app: "x"}, operators)), p)
	require.Equal(t, labels{zone: "z1", app: "x"}, recorded.Items())

	restored := stamped(object("b", 9, labels{zone: "z1", app: "x"}), given(labels{zone: "z1", app: "x"})) // nobody owns what nodekeep restores
	r := merged(t, recorded, FromNode(restored), p)
	assert.Equal(t, labels{zone: "z1", app: "x"}, r.Items())

	for name, c := range map[string]struct {
		next *corev1.Node
		want labels
	}{
		"the operator changes them":            {object("b", 11, labels{zone: "z2", app: "y"}, operators), labels{zone: "z2", app: "y"}},
		"the operator removes them":            {object("b", 11, nil), labels{}},
		"the API server forgets who set them":  {object("b", 11, labels{zone: "z1", app: "x"}, wrote("ancient-changes", 1, zone, app)), labels{zone: "z1", app: "x"}},
		"a component takes them over":          {object("b", 11, labels{zone: "cloud", app: "x"}, wrote("cloud-controller-manager", 1, zone, app)), labels{app: "x"}},
		"a component takes over equal values":  {object("b", 11, labels{zone: "z1", app: "x"}, wrote("kubelet", 1, zone, app)), labels{app: "x"}},
		"a client that is unknown takes over":  {object("b", 11, labels{zone: "z1", app: "y"}, wrote("manager", 1, zone, app)), labels{app: "y"}},
		"something changes them, nobody knows": {object("b", 11, labels{zone: "z3", app: "x"}), labels{zone: "z1", app: "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.next.Annotations = restored.Annotations
			for form, n := range inMemory(c.next) {
				next := merged(t, r, n, p)
				assert.Equal(t, c.want, next.Items(), form)
				reread := merged(t, next, n, p)
				assert.Equal(t, next.Items(), reread.Items(), "%s: the same observation says the same", form)

				returned := FromNode(object("c", 20, nil))
				o := returned.Observation(next, p, true)
				lacks := returned.Merge(next, o, p, now)
				missing := p.Restorable(policy.KeptItems{}, policy.KeptItems{Items: record.Missing(lacks, o)}, policy.Live)
				assert.Equal(t, c.want, missing.Add, "%s: the next Node gets what is left", form)
			}
		})
	}
	brought := stamped(object("b", 9, labels{zone: "z9"}, wrote("kubelet", 1, zone)), record.Stamp{Brought: labels{zone: "z9"}}.Merge(labels{app: "x"}, record.Record{}, 0))
	assert.Equal(t, labels{}, merged(t, recorded, FromNode(brought), p).Items(), "the kubelet brings the zone by itself; an operator has removed the other label")
	assert.Empty(t, merged(t, record.Record{}, FromNode(object("a", 5, labels{zone: "z1", app: "x"}, wrote("manager", 1, zone, app))), p).Items(), "a component's are never recorded")
}
