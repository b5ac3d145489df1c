package observe

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// FieldManager owns the labels that capture sets on Nodes, in their metadata.managedFields. In a history it is nodekeep itself.
const FieldManager = "nodekeep"

// cause returns who changed an item, and when, as far as the Node shows it. It does not guess: managedFields do not show who removed a label.
// Then the actor is empty, and the time is that of the observation.
func (n *Node) cause(key string, values history.Values, p policy.Policy, now time.Time) history.Cause {
	shown, ok := n.Items[key]
	unknown := causeAt("", now)
	wrote := func(w Writer) bool { return slices.Contains(w.Labels, key) }
	taint := record.IsTaint(key) && key != policy.Cordon
	switch {
	case taint:
		wrote = func(w Writer) bool { return w.Taints }
	case key == policy.Cordon:
		wrote = func(w Writer) bool { return w.Cordon }
	}
	if label := n.annotations.labels[key]; label.Adopted && values.To == nil && ok && shown == label.Value {
		return causeAt(history.RuleActor(label.Rule), now)
	}
	switch last, found := LastWriter(n.Writers, wrote); {
	case values.To == nil && !taint, values.To != nil && (!ok || shown != *values.To):
		return unknown
	case !found || last.Manager == ancientChanges || taint && !tellsOfTaints(last.Manager, p):
		return unknown
	case last.Time == 0:
		return causeAt(last.Manager, now)
	default:
		return history.Cause{Actor: last.Manager, Time: metav1.Unix(last.Time, 0)}
	}
}

// causeAt returns an actor at a time, which records have in whole seconds.
func causeAt(actor string, instant time.Time) history.Cause {
	return history.Cause{Actor: actor, Time: metav1.NewTime(instant.UTC().Truncate(time.Second))}
}

// LastWriter returns who wrote last of those that own an item.
func LastWriter(writers []Writer, wrote func(Writer) bool) (last Writer, found bool) {
	for _, w := range writers {
		if wrote(w) && (!found || w.Time >= last.Time) {
			last, found = w, true
		}
	}
	return last, found
}

// Rivals returns the field managers other than nodekeep that own an item. For a label these are its managers, for a taint the last writer of the
// list. For a removed item, managedFields show none if no manager owns the rest of the list.
func (n *Node) Rivals(item string) []string {
	if !record.IsTaint(item) {
		return n.Owners[item]
	}
	last, found := LastWriter(n.Writers, func(w Writer) bool { return w.Taints && w.Manager != FieldManager })
	if !found {
		return nil
	}
	return []string{last.Manager}
}

// tellsOfTaints reports whether the last writer of the list of taints counts as the actor of a kept taint's change. The list has one owner.
// Controllers of the cluster, and nodekeep itself, write it often, for taints that are not kept. They would otherwise be named for a taint
// that another client changed a moment before.
func tellsOfTaints(manager string, p policy.Policy) bool {
	return manager != FieldManager && !strings.HasSuffix(manager, "controller-manager") && p.OwnedByPeople([]string{manager})
}
