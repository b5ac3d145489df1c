package observe

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// annotations are nodekeep's own on a Node, and who wrote the stamp by managedFields.
type annotations struct {
	stamp   record.Stamp
	stamped bool
	by      stampWriter
	derived []corev1.Taint
	labels  map[string]record.Derived // that rules have set
}

func annotationsOf(all map[string]string, by stampWriter) annotations {
	stamp, stamped := record.ParseStamp(all[policy.StampAnnotation])
	return annotations{stamp: stamp, stamped: stamped, by: by, derived: policy.DerivedTaints(all[policy.TaintsAnnotation]), labels: policy.DerivedLabels(all[policy.LabelsAnnotation])}
}

// Stamp is what the annotation says that nodekeep set on this object; ok is false where it says nothing, or may not be believed. guarded
// says that the guard policies are in force. While they are not, a kubelet can write annotations and choose the name of its
// field manager, so one that another manager owns is ignored.
func (n *Node) Stamp(guarded bool) (stamp record.Stamp, ok bool) {
	if !n.annotations.stamped || !guarded && n.annotations.by == byOthers {
		return record.Stamp{}, false
	}
	return n.annotations.stamp, true
}

// Registered reports whether registration taints were added to this object: the client of the first stamp adds them in the same request.
func (n *Node) Registered(guarded bool) bool {
	return n.annotations.stamped && (guarded || n.annotations.by == byWebhook)
}

// DerivedTaints are those of the Node's taints that nodekeep derived from its labels, sorted and without timeAdded. The annotation says which.
// While the guard policies are not in force a kubelet can write it, so it counts only for what a rule makes of some labels: the kubelet could be rid of
// that anyway, by dropping the label. A taint that the record has is a client's.
func (n *Node) DerivedTaints(r record.Record, p policy.Policy, guarded bool) (derived []corev1.Taint) {
	for _, taint := range n.Taints {
		taint.TimeAdded = nil
		if !slices.Contains(n.annotations.derived, taint) {
			continue
		}
		if e, known := r.Entry(record.TaintKey(taint)); guarded || p.RulesMake(taint) && (!known || e.Removed || e.Value != taint.Value) {
			derived = append(derived, taint)
		}
	}
	record.SortTaints(derived)
	return derived
}

// DerivedLabels are the labels that rules have set on this object, and the items that they have removed: the annotation says which. While
// the guard policies are not in force a kubelet can write it, so it counts only for keys that a rule sets or removes, and not where the
// record has the value as a client's, unless it says that an operator has handed it over; for a taint, or a label that a kubelet may not
// set itself, only where the record says the same.
func (n *Node) DerivedLabels(r record.Record, p policy.Policy, guarded bool) map[string]record.Derived {
	if guarded {
		return n.annotations.labels
	}
	derived := maps.Clone(n.annotations.labels)
	maps.DeleteFunc(derived, func(key string, label record.Derived) bool {
		e, known := r.Entry(key)
		recorded := r.Derived[key]
		proved := record.IsLabel(key) && policy.AllowedForKubelet(key) || recorded.Rule != "" && recorded.Value == label.Value && recorded.Absent == label.Absent
		return !proved || !p.RulesSet(key) || known && !e.Removed && !label.Absent && !label.Adopted && e.Value == label.Value
	})
	return derived
}

// ListedLabels are the labels that the annotation lists, be they believed or not.
func (n *Node) ListedLabels() map[string]record.Derived { return n.annotations.labels }

// ListsTaintsThatAreGone reports whether the annotation lists a derived taint that the Node does not show.
func (n *Node) ListsTaintsThatAreGone() bool {
	return slices.ContainsFunc(n.annotations.derived, func(taint corev1.Taint) bool {
		value, shown := n.Items[record.TaintKey(taint)]
		return !shown || value != taint.Value
	})
}

// unproved are the keys of a stamp that a kubelet may have written about what it may not set itself, or about what the record does not
// know: nodekeep sets nothing else, and invented keys would fill the record with removals.
func unproved(stamp record.Stamp, r record.Record) map[string]bool {
	var keys map[string]bool
	note := func(key string) {
		if _, known := r.Entry(key); known && !record.IsTaint(key) && policy.AllowedForKubelet(key) {
			return
		}
		if keys == nil {
			keys = map[string]bool{}
		}
		keys[key] = true
	}
	for key := range stamp.Given {
		note(key)
	}
	for key := range stamp.Brought {
		note(key)
	}
	return keys
}
