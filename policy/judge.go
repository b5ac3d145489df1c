package policy

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/record"
)

// Verdict says of one item of a Node whether it is remembered, and why.
type Verdict struct {
	Keeps bool
	// Owner is whose decision the item is.
	Owner record.Owner

	why string
	// managers are those that set the label again by themselves, where that is why. They are written out only for who asks.
	managers []string
}

// Why completes "kept because ..." or "left out because ...".
func (v Verdict) Why() string {
	if len(v.managers) > 0 {
		return "managedFields show only " + strings.Join(v.managers, ", ") + ", which sets it again by itself"
	}
	return v.why
}

// Judge says of one item of a Node whether it is remembered: the policy keeps it, no rule has put it on, and no other
// component sets it again by itself, by live evidence. There is no such evidence for taints: an annotation or a managedFields
// entry that seems to name one is made up, maybe by the kubelet.
func (p Policy) Judge(node Metadata, item string) Verdict {
	if slices.ContainsFunc(node.RuleTaints, func(taint corev1.Taint) bool { return record.TaintKey(taint) == item }) {
		return Verdict{Owner: record.Rule, why: "a rule puts it on"}
	}
	keeps, why := p.Keeps(item)
	switch {
	case !keeps:
		return Verdict{Owner: record.Other, why: why}
	case record.IsTaint(item):
		return Verdict{Keeps: true, why: why}
	case p.ownedByOthers(node.Owners[item]):
		return Verdict{Owner: record.Other, managers: node.Owners[item]}
	case slices.Contains(node.Claimed, item):
		return Verdict{Owner: record.Other, why: "an annotation of the Node says that another component has set it"}
	}
	verdict := Verdict{Keeps: true, why: why}
	if len(node.Owners[item]) > 0 {
		verdict.Owner = record.Client
	}
	return verdict
}
