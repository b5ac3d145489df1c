package policy

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Verdict says of one item of a Node whether it is remembered, and why.
type Verdict struct {
	Keeps bool

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
	keeps, why := p.Keeps(item)
	switch {
	case !keeps:
		return Verdict{why: why}
	case IsTaint(item):
		if slices.ContainsFunc(node.RuleTaints, func(taint corev1.Taint) bool { return TaintItem(taint) == item }) {
			return Verdict{why: "a rule puts it on"}
		}
	case p.ownedByOthers(node.Owners[item]):
		return Verdict{managers: node.Owners[item]}
	case slices.Contains(node.Claimed, item):
		return Verdict{why: "an annotation of the Node says that another component has set it"}
	}
	return Verdict{Keeps: true, why: why}
}
