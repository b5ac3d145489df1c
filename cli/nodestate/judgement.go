package nodestate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// Judgement is what a policy says of the labels, taints and annotations of one Node. All commands decide by it.
type Judgement struct {
	Metadata policy.Metadata // what the Node and its record show
	policy   policy.Policy
	restored map[string]record.Given // what nodekeep has set on this Node
}

// Judge looks at a Node together with its record, which shows whose a label is that nodekeep has restored.
func (s State) Judge(inputs plan.Inputs) Judgement {
	if s.Node == nil {
		return Judgement{Metadata: policy.Metadata{Record: s.RecordOrEmpty()}, policy: inputs.Policy}
	}
	node := observe.FromNodeWithAnnotations(s.Node, inputs.Policy.Annotations())
	stamp, _ := node.Stamp(inputs.GuardInForce)
	return Judgement{node.Metadata(s.RecordOrEmpty(), inputs.Policy, inputs.GuardInForce), inputs.Policy, stamp.Given}
}

// Items returns what the Node shows, with their values.
func (j Judgement) Items() map[string]string { return j.Metadata.Items }

// Keeps reports whether an item is kept, and why.
func (j Judgement) Keeps(item string) (keeps bool, reason string) {
	verdict := j.policy.Judge(j.Metadata, item)
	return verdict.Keeps, verdict.Reason()
}

// ByRules reports whether rules of the policy decide what the Node shows of an item.
func (j Judgement) ByRules(item string) bool {
	if ruleLabel, listed := j.Metadata.RuleLabels[item]; listed && ruleLabel.ShownBy(j.Metadata.Items, item) {
		return true
	}
	return slices.ContainsFunc(j.Metadata.RuleTaints, func(taint corev1.Taint) bool { return record.TaintKey(taint) == item })
}

// Managers returns the clients that set an item, as managedFields show them. Of a value that nodekeep has restored, or whose managers are lost, the record
// may have them. The lists of taints in managedFields do not show which client set one of them.
func (j Judgement) Managers(item string) []string {
	managers := j.Metadata.Owners[item]
	if len(managers) > 0 && !policy.LostOwners(managers) || !j.isRecorded(item) {
		return managers
	}
	e, _ := j.Metadata.Record.Entry(item)
	var known []string
	for _, manager := range e.Owners.Managers() {
		known = append(known, manager.Name)
	}
	if len(known) == 0 {
		return managers
	}
	slices.Sort(known)
	return slices.Compact(known)
}

// Unexpected reports whether an item is kept that no known client of operators has set. The policy does not name it, and it is known who set it.
func (j Judgement) Unexpected(item string) bool {
	managers := j.Managers(item)
	return len(managers) > 0 && !j.policy.Names(item) && !slices.ContainsFunc(managers, func(manager string) bool {
		single := []string{manager}
		return j.policy.AreOperators(single) || policy.LostOwners(single)
	})
}

// Explain returns the reason of [Judgement.Keeps] and, of what is kept, who has set it. For items that nodekeep
// has restored, that comes from the record.
func (j Judgement) Explain(item string) (keeps bool, reason string) {
	keeps, reason = j.Keeps(item)
	if !keeps {
		return keeps, reason
	}
	if managers := strings.Join(j.Managers(item), ", "); managers != "" && !strings.HasPrefix(reason, "managedFields show only "+managers+",") {
		reason += "; set by " + managers
		if j.Unexpected(item) {
			reason += ", not a known client of operators"
		}
	}
	const recorded = "the record has it"
	if _, restored := j.restored[item]; restored && j.isRecorded(item) && !strings.Contains(reason, recorded) {
		reason += "; restored: " + recorded
	}
	return keeps, reason
}

// isRecorded reports whether the record has what the Node shows.
func (j Judgement) isRecorded(item string) bool {
	e, recorded := j.Metadata.Record.Entry(item)
	value, shown := j.Metadata.Items[item]
	return recorded && !e.Removed && (!shown || value == e.Value)
}
