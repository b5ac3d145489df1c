package nodestate

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// State is what was read of one Node: the object, the record, or both.
type State struct {
	Name       string
	Node       *corev1.Node   // nil: there is none
	Record     *record.Record // nil: there is none that can be read
	StoreEntry store.Entry    // that the record was read from, with its version
	Unreadable error          // why there is a record but nothing may be taken from it

	FollowDecision     *FollowDecision // nil: it has a record, or the policy follows none
	registrationSource *record.Record  // what it begins with, where it follows
}

// maxWrites limits the writes of the record before the change of a Node. One write resets it, one accepts a side, one merges.
const maxWrites = 5

// Simulate returns what capture does with an existing Node. The first result is the next action. The others are the record once capture has written it
// (nil: none), and the later change of the Node.
func (s State) Simulate(inputs plan.Inputs) (first capture.Action, recordAfter *record.Record, last capture.Action) {
	node, entry, found := observe.FromNodeWithAnnotations(s.Node, inputs.Policy.Annotations()), store.Entry{AcceptedSide: s.StoreEntry.AcceptedSide}, s.Record != nil
	if found {
		entry.Record, recordAfter = *s.Record, s.Record
	} else if s.registrationSource != nil {
		entry.Record = *s.registrationSource
	}
	for i := range maxWrites {
		last = capture.Decide(entry, found, node, capture.NodePresent, inputs)
		if i == 0 {
			first = last
		}
		if last.Record == nil {
			break
		}
		recordAfter, entry, found = last.Record, store.Entry{Record: *last.Record}, true
	}
	return first, recordAfter, last
}

// NextRecord returns the record of an existing Node once capture has written it. It is nil if there is nothing to write.
func (s State) NextRecord(inputs plan.Inputs) *record.Record {
	if _, r, _ := s.Simulate(inputs); r != s.Record {
		return r
	}
	return nil
}

// ItemsOf returns what a record holds; nil holds nothing.
func ItemsOf(r *record.Record) map[string]string { return ptr.Deref(r, record.Record{}).Items() }

// RecordOrEmpty returns the record that was read; an empty one where there is none.
func (s State) RecordOrEmpty() record.Record { return ptr.Deref(s.Record, record.Record{}) }

// Machine returns the machine that the Node is on, or was on when it was last observed.
func (s State) Machine() record.Machine {
	if s.Node != nil {
		return observe.FromNode(s.Node).Machine
	}
	return s.RecordOrEmpty().Machine
}

// labels returns those of the Node or, of one that is deleted, the recorded ones.
func (s State) labels() labels.Set {
	if s.Node != nil {
		return s.Node.Labels
	}
	recorded, _ := record.Split(ItemsOf(s.Record))
	return recorded
}

// Selected reports whether a label selector selects the Node; one that is deleted by its recorded labels.
func (s State) Selected(selector labels.Selector) bool { return selector.Matches(s.labels()) }

// RegistrationRecord returns the record that a registration goes by: the one of the Node or, where it has none, what it follows. It is nil if there is neither.
func (s State) RegistrationRecord() *record.Record { return cmp.Or(s.Record, s.registrationSource) }

// MissingRegistrationTaints returns the registration taints that a Node behind the gate has still to get, and gets with the change that lifts the gate. After that
// nothing adds them any more.
func (s State) MissingRegistrationTaints(inputs plan.Inputs) []corev1.Taint {
	node := observe.FromNode(s.Node)
	if node.GotRegistrationTaints(inputs.GuardInForce) {
		return nil
	}
	labels := maps.Clone(s.Node.Labels)
	if s.Record != nil {
		missing, _ := record.Split(s.Missing(inputs))
		for key, value := range missing {
			labels[key] = value
		}
	}
	return policy.WithoutKeys(inputs.Policy.RegistrationTaints(labels), s.Node.Spec.Taints)
}

// AwaitsDecision reports whether the record waits for an operator's decision between two machines.
func (s State) AwaitsDecision() bool {
	return s.Record != nil && s.Record.Quarantined != nil && s.StoreEntry.AcceptedSide == ""
}

// Missing returns what capture restores on a Node that is there, by its record. While the record is quarantined, it is what the machine before had.
func (s State) Missing(inputs plan.Inputs) map[string]string {
	if old := s.Record.Quarantined; old != nil {
		node := observe.FromNodeWithAnnotations(s.Node, inputs.Policy.Annotations())
		return inputs.Policy.Restorable(node.KeptItems(), policy.KeptItems{Items: old.Items(), Machine: old.Machine}, policy.Live).Add
	}
	_, _, next := s.Simulate(inputs)
	return next.WithCause(plan.CauseRecord).Values()
}

// ItemsAwaitingOperator returns what an operator must accept of the record that the Node followed, or would follow.
func (s State) ItemsAwaitingOperator() map[string]string {
	if r := s.RegistrationRecord(); r != nil && r.Quarantined != nil && !r.WholeRecordQuarantined() {
		return r.Quarantined.Items()
	}
	return nil
}

// Violations returns the rules of governance that the labels of a Node which is there break.
func (s State) Violations(inputs plan.Inputs) []governance.Violation {
	if s.Node == nil {
		return nil
	}
	return plan.Violations(s.RecordOrEmpty(), observe.FromNodeWithAnnotations(s.Node, inputs.Policy.Annotations()), inputs)
}
