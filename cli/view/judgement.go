package view

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
	metadata policy.Metadata
	policy   policy.Policy
	restored map[string]record.Given // what nodekeep has set on this Node
}

// Judge looks at a Node together with its record, which shows whose a label is that nodekeep has restored.
func (s NodeState) Judge(in plan.Circumstances) Judgement {
	if s.Node == nil {
		return Judgement{metadata: policy.Metadata{Record: s.record()}, policy: in.Policy}
	}
	node := observe.OfKeeping(s.Node, in.Policy.Annotations())
	stamp, _ := node.Stamp(in.Guarded)
	return Judgement{node.Metadata(s.record(), in.Policy, in.Guarded), in.Policy, stamp.Given}
}

// Items returns what the Node shows, with their values.
func (j Judgement) Items() map[string]string { return j.metadata.Items }

// Keeps reports whether an item is kept, and why.
func (j Judgement) Keeps(item string) (keeps bool, why string) {
	verdict := j.verdict(item)
	return verdict.Keeps, verdict.Why()
}

func (j Judgement) verdict(item string) policy.Verdict { return j.policy.Judge(j.metadata, item) }

// byRules reports whether rules of the policy decide what the Node shows of an item.
func (j Judgement) byRules(item string) bool {
	if derived, listed := j.metadata.RuleLabels[item]; listed && derived.ShownBy(j.metadata.Items, item) {
		return true
	}
	return slices.ContainsFunc(j.metadata.RuleTaints, func(taint corev1.Taint) bool { return record.TaintKey(taint) == item })
}

// setters returns the clients that set an item, as managedFields show them. Of a value that nodekeep has restored, or whose managers are lost, the record
// may have them. The lists of taints in managedFields do not show which client set one of them.
func (j Judgement) setters(item string) []string {
	managers := j.metadata.Owners[item]
	if len(managers) > 0 && !policy.LostOwners(managers) || !j.isRecorded(item) {
		return managers
	}
	e, _ := j.metadata.Record.Entry(item)
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

// unexpected reports whether an item is kept that no known client of operators has set. The policy does not name it, and it is known who set it.
func (j Judgement) unexpected(item string) bool {
	managers := j.setters(item)
	return len(managers) > 0 && !j.policy.Names(item) && !slices.ContainsFunc(managers, func(manager string) bool {
		alone := []string{manager}
		return j.policy.OfOperators(alone) || policy.LostOwners(alone)
	})
}

// why returns the reason of [Judgement.Keeps] and, of what is kept, who has set it. Of what nodekeep has restored, that is as the record has it.
func (j Judgement) why(item string) (keeps bool, why string) {
	keeps, why = j.Keeps(item)
	if !keeps {
		return keeps, why
	}
	if managers := strings.Join(j.setters(item), ", "); managers != "" && !strings.HasPrefix(why, "managedFields show only "+managers+",") {
		why += "; set by " + managers
		if j.unexpected(item) {
			why += ", not a known client of operators"
		}
	}
	const recorded = "the record has it"
	if _, restored := j.restored[item]; restored && j.isRecorded(item) && !strings.Contains(why, recorded) {
		why += "; restored: " + recorded
	}
	return keeps, why
}

// isRecorded reports whether the record has what the Node shows.
func (j Judgement) isRecorded(item string) bool {
	e, recorded := j.metadata.Record.Entry(item)
	value, shown := j.metadata.Items[item]
	return recorded && !e.Removed && (!shown || value == e.Value)
}
