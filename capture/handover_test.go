package capture

import (
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture/pace"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

const argo record.Owners = "Apply argocd-controller"

// by says that the record knows the owners of keys.
func by(owners record.Owners, keys ...string) func(*record.Record) {
	return func(r *record.Record) {
		for i, e := range r.Entries {
			for _, key := range keys {
				if e.Key == key {
					r.Entries[i].Owners = owners
				}
			}
		}
	}
}

// nextOn returns the next action, with the Node as the API server has just returned it.
func nextOn(t *testing.T, r *record.Record, n *corev1.Node, refused ...string) Action {
	t.Helper()
	inputs := plan.Inputs{Policy: loadPolicy(t, ""), GuardInForce: true, Now: now, Refused: map[string]bool{}}
	for _, key := range refused {
		inputs.Refused[key] = true
	}
	whole := observe.FromNode(n)
	whole.ManagedFields = n.ManagedFields
	return Decide(store.Entry{Record: *r}, true, whole, NodePresent, inputs)
}

// A value belongs to the manager of the PATCH that sets it. So owners follow in the next one.
func TestOwnersAreHandedOverWithTheGate(t *testing.T) {
	known := func(keys ...string) *record.Record {
		return remembered("a", 10, labels{worker: ""}, by(argo, keys...), later("b", 21))
	}
	given := stamped(record.Stamp{}.Merge(labels{worker: ""}, *known(worker), 20))
	restored := node("b", "21", labels{worker: ""}, gated, given, owned("nodekeep", worker))

	for name, tt := range map[string]struct {
		record  *record.Record
		node    *corev1.Node
		refused []string
		step    Step
		lift    bool
		owners  map[string]record.Owners
	}{
		"what is missing is set first, and the gate stays":    {known(worker), node("b", "22", nil, gated), nil, StepRestore, false, nil},
		"unless nobody is known to own it":                    {known(), node("b", "22", nil, gated), nil, StepRestore, true, nil},
		"then its owner has it again, and the gate is lifted": {known(worker), restored, nil, StepLiftGate, true, map[string]record.Owners{worker: argo}},
		"or nobody": {known(), restored, nil, StepLiftGate, true, map[string]record.Owners{worker: ""}},
		"if the API server refuses owners, the gate is lifted without them":     {known(worker), restored, []string{plan.ManagedFieldsItem}, StepLiftGate, true, nil},
		"without a gate its owner has it all the same":                          {known(worker), node("b", "21", labels{worker: ""}, given, owned("nodekeep", worker)), nil, StepRestoreOwners, false, map[string]record.Owners{worker: argo}},
		"and nobody is worth no PATCH":                                          {known(), node("b", "21", labels{worker: ""}, given, owned("nodekeep", worker)), nil, NoStep, false, nil},
		"what its owner has already":                                            {known(worker), node("b", "21", labels{worker: ""}, given, applied("argocd-controller", worker)), nil, NoStep, false, nil},
		"a value that is not the record's is nobody's to hand over":             {known(worker), node("b", "21", labels{worker: "x"}, owned("nodekeep", worker), gated), nil, StepUpdateRecord, false, nil},
		"managedFields that cannot be read are left as they are, without delay": {known(worker), node("b", "21", labels{worker: ""}, gated, given, owned("nodekeep", worker), unreadable), nil, StepLiftGate, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			next := nextOn(t, tt.record, tt.node, tt.refused...)
			assert.Equal(t, tt.step, next.Step)
			assert.Equal(t, tt.lift, next.LiftsGate() && next.Record == nil)
			if next.Record == nil {
				assert.Equal(t, tt.owners, next.RestoredOwners)
				assert.Equal(t, tt.owners != nil, next.ManagedFields != nil)
			}
		})
	}
	_, fromMemory := nextOn(t, known(worker), restored), Decide(store.Entry{Record: *known(worker)}, true, observe.CompactNodeOf(observe.FromNode(restored)).Node(), NodePresent, plan.Inputs{Policy: loadPolicy(t, ""), GuardInForce: true, Now: now})
	assert.NotEmpty(t, fromMemory.RestoredOwners)
	assert.Nil(t, fromMemory.ManagedFields, "memory does not hold them: the Node is read first")
}

// applied says by managedFields that a manager has applied labels.
func applied(manager string, keys ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		owned(manager, keys...)(n)
		n.ManagedFields[len(n.ManagedFields)-1].Operation = metav1.ManagedFieldsOperationApply
	}
}

// unreadable adds an entry of nodekeep's that is no list of fields.
func unreadable(n *corev1.Node) {
	n.ManagedFields = append(n.ManagedFields, metav1.ManagedFieldsEntry{Manager: observe.FieldManager, FieldsV1: metav1.NewFieldsV1(`[]`)})
}

func TestANodeWhoseOwnersTheAPIServerRefusesIsOpenedAllTheSame(t *testing.T) {
	r := remembered("a", 10, labels{worker: ""}, by(argo, worker), later("b", 21))
	c := newCluster(t, "", r, node("b", "21", labels{worker: ""}, gated, stamped(record.Stamp{}.Merge(labels{worker: ""}, *r, 20)), owned("nodekeep", worker)))
	owners := func() string { return c.nodes["n1"].ManagedFields[0].Manager }
	c.admits = func(prev, updated *corev1.Node) error {
		if len(updated.ManagedFields) != len(prev.ManagedFields) || updated.ManagedFields[0].Manager != prev.ManagedFields[0].Manager {
			return errors.New("another policy wants managedFields as they are")
		}
		return nil
	}
	leader := c.leader()
	leader.works()
	assert.False(t, gate.Present(c.nodes["n1"].Spec.Taints))
	assert.Equal(t, "nodekeep", owners())

	c.admits = nil
	c.clock = c.clock.Add(pace.LongestPause)
	leader.Enqueue("n1")
	leader.works()
	assert.Equal(t, "argocd-controller", owners(), "no refusal is for ever")
}

// A kubelet can write that nodekeep owns a label, again and again. Each time the owner has it again, and less and less often.
func TestAKubeletThatForgesNodekeepAsOwnerMakesItWriteLessAndLessOften(t *testing.T) {
	r := remembered("a", 10, labels{"k": "v"}, by(argo, "k"), later("b", 21))
	c := newCluster(t, "", r, node("b", "21", labels{"k": "v"}, stamped(record.Stamp{}.Merge(labels{"k": "v"}, *r, 20)), owned("nodekeep", "k")))
	leader := c.leader()
	const lies = 50
	for range lies {
		leader.works()
		forged := c.nodes["n1"].DeepCopy()
		forged.ManagedFields = nil
		owned("nodekeep", "k")(forged)
		c.version++
		forged.ResourceVersion = strconv.Itoa(c.version)
		c.nodes["n1"] = forged
		c.tell(forged)
	}
	wrote := 0
	for _, write := range leader.writes {
		if write == "patch n1" {
			wrote++
		}
	}
	assert.Positive(t, wrote)
	assert.Less(t, wrote, 10, "of %d lies", lies)
	assert.Equal(t, labels{"k": "v"}, c.nodes["n1"].Labels)
}
