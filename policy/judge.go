package policy

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/record"
)

// Verdict says whether an item of a Node is recorded, and why.
type Verdict struct {
	Keeps bool
	// Owner is whose decision the item is.
	Owner record.Owner
	// Taken says that a component sets the label now which usually does so. An operator's earlier value is no longer restored: the
	// component may drop the label.
	Taken bool

	reason sentences
	// managers are those of managedFields, where they are why. They are written out only for who asks.
	managers []string
}

// Reason completes "kept because ..." or "left out because ...".
func (v Verdict) Reason() string {
	if len(v.managers) > 0 {
		return "managedFields show only " + strings.Join(v.managers, ", ") + ", " + v.reason.String()
	}
	return v.reason.String()
}

// Judge says whether an item of a Node is recorded. The policy keeps it, no rule has set it, and live evidence shows no other component
// that sets it again. There is no such evidence for taints. An annotation or a managedFields entry that seems to name one is made up, maybe
// by the kubelet.
func (p Policy) Judge(node Metadata, item string) Verdict {
	if slices.ContainsFunc(node.RuleTaints, func(taint corev1.Taint) bool { return record.TaintKey(taint) == item }) {
		return Verdict{Owner: record.Rule, reason: sentences{"a rule puts it on"}}
	}
	ruling, reason := p.rule(item)
	ruleLabel, listed := node.RuleLabels[item]
	to, renamed := p.RenamedTo(node, item)
	switch {
	case listed && ruleLabel.Absent && ruleLabel.ShownBy(node.Items, item):
		return Verdict{Owner: record.Absent, reason: sentences{"rule ", ruleLabel.Rule, " removes it"}}
	case listed && ruleLabel.Adopted && ruleLabel.ShownBy(node.Items, item):
		return Verdict{Owner: record.Rule, reason: sentences{"an operator has handed it over to rule ", ruleLabel.Rule}}
	case listed && ruleLabel.ShownBy(node.Items, item):
		return Verdict{Owner: record.OtherOwner, reason: sentences{"rule ", ruleLabel.Rule, " sets it"}}
	case ruling == leftOut:
		return Verdict{Owner: record.OtherOwner, reason: reason}
	case setByVerification(node.Owners[item]):
		return Verdict{Owner: record.OtherOwner, reason: sentences{"verification has set it"}}
	case node.Marks[item].By != "":
		return Verdict{Owner: record.OtherOwner, reason: sentences{node.Marks[item].By, " has set it while the Node was being taken away"}}
	case ruling == marked && namesDrainer(node.Items[item]):
		return Verdict{Owner: record.OtherOwner, reason: sentences{"its value names ", node.Items[item], ", which drains Nodes"}}
	case record.IsTaint(item):
		return Verdict{Keeps: true, reason: reason}
	case p.ownedByOthers(node.Owners[item]):
		return Verdict{Owner: record.OtherOwner, Taken: ruling == doubtful, managers: node.Owners[item], reason: sentences{"which sets it again by itself"}}
	case slices.Contains(node.Claimed, item):
		return Verdict{Owner: record.OtherOwner, reason: sentences{"an annotation of the Node says that another component has set it"}}
	case renamed:
		return Verdict{Owner: record.OtherOwner, reason: sentences{"a migration has renamed it to ", to}}
	case ruling == doubtful, ruling == marked:
		verdict := p.judgeDoubtful(node, item)
		verdict.Taken = verdict.Taken && ruling == doubtful
		return verdict
	}
	verdict := Verdict{Keeps: true, reason: reason}
	if len(node.Owners[item]) > 0 {
		verdict.Owner = record.Client
	}
	return verdict
}

func namesDrainer(value string) bool {
	_, ok := drainers().match(value)
	return ok
}

// Kubelet is the manager by which a kubelet changes its Node.
const Kubelet = "kubelet"

// Managers that the API server makes of entries whose managers it has lost.
const (
	ancientChanges   = "ancient-changes"
	beforeFirstApply = "before-first-apply"
)

// LostOwners reports whether the API server has lost all managers of a label.
func LostOwners(managers []string) bool {
	return len(managers) > 0 && !slices.ContainsFunc(managers, func(manager string) bool { return manager != ancientChanges && manager != beforeFirstApply })
}

// judgeDoubtful is [Policy.Judge] for a label that a component usually sets. It is an operator's if managedFields show only operators'
// clients. A label that nodekeep has restored has no manager: then the record shows whose it is.
func (p Policy) judgeDoubtful(node Metadata, item string) Verdict {
	managers, clients, lost := node.Owners[item], 0, 0
	for _, manager := range managers {
		switch {
		case manager == ancientChanges || manager == beforeFirstApply:
			lost++
		case p.ofOperators(manager):
			clients++
		}
	}
	value, shown := node.Items[item]
	e, recorded := node.Record.Entry(item)
	recorded = recorded && !e.Removed && (!shown || value == e.Value)
	switch {
	case clients > 0 && clients == len(managers):
		return Verdict{Keeps: true, Owner: record.Client, managers: managers, reason: sentences{"a client of operators"}}
	case clients+lost < len(managers):
		return Verdict{Owner: record.OtherOwner, Taken: true, managers: managers, reason: sentences{"not a known client of operators; labels.keep can name the label"}}
	case recorded:
		return Verdict{Keeps: true, reason: sentences{"the record has it as an operator's"}}
	}
	return Verdict{Owner: record.OtherOwner, reason: sentences{"managedFields do not show that an operator set it; labels.keep can name it"}}
}
