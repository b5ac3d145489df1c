package observe

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// marks returns items that a client set while the Node was being taken away, each with that client. It is no operator's. The next machine of the
// name must not inherit them. An item is a mark only if nodekeep has observed this object without it. What was there when nodekeep first looked
// may be older. A taint stays a mark when another client writes the list later. If the Node is not taken away after all, the item is no mark any more. It is recorded then.
func (n *Node) marks(r record.Record, p policy.Policy) (marks map[string]record.Mark) {
	start, leaving := n.leaving(p)
	if !leaving || r.Observed(n.UID) == 0 {
		return nil
	}
	prev := r.MarksOf(record.Object{UID: n.UID})
	for item, value := range n.Items {
		if e, known := r.Entry(item); known && !e.Removed && e.Value == value || n.listed(item, value) || item == policy.Cordon || record.IsAnnotation(item) || p.Names(item) {
			continue
		}
		mark := record.Mark{Value: value}
		mark.By = n.markedBy(item, start, p)
		if old := prev[item]; old.Value == value && old.By != "" && (mark.By != "" || record.IsTaint(item)) {
			mark.By = old.By
		}
		if mark.By != "" {
			if marks == nil {
				marks = map[string]record.Mark{}
			}
			marks[item] = mark
		}
	}
	return marks
}

// leaving reports whether the Node is being taken away. It is cordoned, or deleted and waits for its finalizers. Or it has a taint by which an
// autoscaler or a cloud says so. It is so since then, in seconds since 1970; 0: not known.
func (n *Node) leaving(p policy.Policy) (start int64, leaving bool) {
	if n.Deleting() {
		return n.DeletionTimestamp.Unix(), true
	}
	if _, cordoned := n.Items[policy.Cordon]; cordoned {
		for _, w := range n.Writers {
			if w.Cordon && w.Time != 0 && (start == 0 || w.Time < start) {
				start = w.Time
			}
		}
		return start, true
	}
	return 0, slices.ContainsFunc(n.Taints, func(taint corev1.Taint) bool { return p.Ends(taint.Key) })
}

// listed reports whether the stamp lists an item with this value. The object has had it since its CREATE then, or nodekeep has set it.
func (n *Node) listed(item, value string) bool {
	given, gave := n.annotations.stamp.Given[item]
	brought, brings := n.annotations.stamp.Brought[item]
	listed := record.StampValue(item, value)
	return gave && given.Value == listed || brings && brought == listed
}

// markedBy returns the client that set an item since a moment, and no operator's; else it is empty. Each manager of a label must be none.
// Those that set a label again by themselves mark nothing. The list of taints has one manager, who wrote it last. Controllers that only write
// their own taints prove nothing of another one.
func (n *Node) markedBy(item string, start int64, p policy.Policy) (manager string) {
	owns := func(w Writer) bool { return slices.Contains(w.Labels, item) && w.Manager != FieldManager }
	if record.IsTaint(item) {
		owns = func(w Writer) bool { return w.Taints }
	}
	ofOperators := func(w Writer) bool {
		return owns(w) && (p.AreOperators([]string{w.Manager}) || policy.LostOwners([]string{w.Manager}))
	}
	last, found := LastWriter(n.Writers, owns)
	switch {
	case !found, slices.ContainsFunc(n.Writers, ofOperators), !p.OwnedByPeople([]string{last.Manager}):
		return ""
	case record.IsTaint(item) && !tellsOfTaints(last.Manager, p):
		return ""
	case start != 0 && last.Time != 0 && last.Time < start:
		return ""
	}
	return last.Manager
}
