package observe

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// annotations are nodekeep's own on a Node, and who wrote the stamp by managedFields.
type annotations struct {
	stamp   record.Stamp
	stamped bool
	by      stampWriter
	derived []corev1.Taint
	labels  map[string]record.RuleLabel // that rules have set
}

func annotationsOf(all map[string]string, by stampWriter) annotations {
	stamp, stamped := record.ParseStamp(all[policy.StampAnnotation])
	return annotations{
		stamp: stamp, stamped: stamped, by: by,
		derived: policy.DerivedTaints(all[policy.TaintsAnnotation]), labels: policy.RuleLabelsOf(all[policy.LabelsAnnotation]),
	}
}

// Stamp returns the annotation's list of what nodekeep set on this object. If the annotation is missing or not trusted, ok is false. The
// parameter guardInForce says that the guard policies are in force. While they are not, a kubelet can write annotations and choose the name of
// its field manager. So an annotation that another manager owns is ignored.
func (n *Node) Stamp(guardInForce bool) (stamp record.Stamp, ok bool) {
	if !n.annotations.stamped || !guardInForce && n.annotations.by == byOthers {
		return record.Stamp{}, false
	}
	return n.annotations.stamp, true
}

// GotRegistrationTaints reports whether registration taints were added to this object. The client that writes the first stamp adds them in the same
// request.
func (n *Node) GotRegistrationTaints(guardInForce bool) bool {
	return n.annotations.stamped && (guardInForce || n.annotations.by == byWebhook)
}

// DerivedTaints returns the Node's taints that nodekeep derived from its labels, sorted and without timeAdded. The annotation lists them. While
// the guard policies are not in force, a kubelet can write the annotation. It then counts only for taints that a rule derives from labels.
// The kubelet could remove such a taint anyway, by dropping the label. A taint that the record has is a client's.
func (n *Node) DerivedTaints(r record.Record, p policy.Policy, guardInForce bool) (derived []corev1.Taint) {
	for _, taint := range n.Taints {
		taint.TimeAdded = nil
		if !slices.Contains(n.annotations.derived, taint) {
			continue
		}
		if e, known := r.Entry(record.TaintKey(taint)); guardInForce || p.RulesMake(taint) && (!known || e.Removed || e.Value != taint.Value) {
			derived = append(derived, taint)
		}
	}
	record.SortTaints(derived)
	return derived
}

// TrustedRuleLabels returns the labels that rules have set on this object, and the items that they have removed. The annotation lists them. While
// the guard policies are not in force, a kubelet can write the annotation. It then counts only for keys that a rule sets or removes:
//   - If the record has the value as a client's, it counts only if an operator has handed the label over.
//   - For a taint or a label that no kubelet may set, it counts only if the record says the same.
func (n *Node) TrustedRuleLabels(r record.Record, p policy.Policy, guardInForce bool) map[string]record.RuleLabel {
	if guardInForce {
		return n.annotations.labels
	}
	ruleLabels := maps.Clone(n.annotations.labels)
	maps.DeleteFunc(ruleLabels, func(key string, label record.RuleLabel) bool {
		e, known := r.Entry(key)
		recorded := r.RuleLabels[key]
		proved := record.IsLabel(key) && policy.AllowedForKubelet(key) || recorded.Rule != "" && recorded.Value == label.Value && recorded.Absent == label.Absent
		return !proved || !p.RulesSet(key) || known && !e.Removed && !label.Absent && !label.Adopted && e.Value == label.Value
	})
	return ruleLabels
}

// AnnotatedLabels returns the labels that the annotation lists, be they believed or not.
func (n *Node) AnnotatedLabels() map[string]record.RuleLabel { return n.annotations.labels }

// ListsTaintsThatAreGone reports whether the annotation lists a derived taint that the Node does not show.
func (n *Node) ListsTaintsThatAreGone() bool {
	return slices.ContainsFunc(n.annotations.derived, func(taint corev1.Taint) bool {
		value, shown := n.Items[record.TaintKey(taint)]
		return !shown || value != taint.Value
	})
}

// unconfirmed returns the keys of a stamp that a kubelet may have forged. The kubelet may not set these keys itself, or the record does not know
// them. Invented keys would fill the record with removals.
func unconfirmed(stamp record.Stamp, r record.Record) map[string]bool {
	keys := map[string]bool{}
	for key := range sets.KeySet(stamp.Given).Union(sets.KeySet(stamp.Brought)) {
		if _, known := r.Entry(key); !known || record.IsTaint(key) || !policy.AllowedForKubelet(key) {
			keys[key] = true
		}
	}
	return keys
}
