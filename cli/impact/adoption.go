package impact

import (
	"cmp"
	"fmt"
	"maps"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// Adoption is which labels of operators are handed over to the rules that derive the same value.
type Adoption struct {
	Key     string         `json:"key"`
	Adopt   []AdoptedLabel `json:"adopt"`
	Derived int            `json:"already"` // Nodes on which the label is a rule's
	Left    []AdoptedLabel `json:"leftAlone"`
}

// AdoptedLabel is a label on a Node that is handed over, or why it is not.
type AdoptedLabel struct {
	Node   string `json:"node"`
	Value  string `json:"value"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"why,omitempty"` // it is left alone
}

// Add adds a Node.
func (a *Adoption) Add(s nodestate.State, rule string, inputs plan.Inputs) {
	label, alreadyDerived := PlanAdoption(s, a.Key, rule, inputs)
	switch {
	case alreadyDerived:
		a.Derived++
	case label == nil:
	case label.Reason != "":
		a.Left = append(a.Left, *label)
	default:
		a.Adopt = append(a.Adopt, *label)
	}
}

// PlanAdoption returns the plan for a label of a Node: hand it over to its rule, or leave it alone. The label is nil if neither the Node nor the record
// has it, or if it is the rule's already (alreadyDerived is true then). If a rule is named, only a label that this rule derives is handed over.
func PlanAdoption(s nodestate.State, key, rule string, inputs plan.Inputs) (label *AdoptedLabel, alreadyDerived bool) {
	recordedValue, recorded := nodestate.ItemsOf(s.Record)[key]
	left := func(value, rule, reason string) (*AdoptedLabel, bool) {
		return &AdoptedLabel{Node: s.Name, Value: value, Rule: rule, Reason: reason}, false
	}
	if s.Node == nil {
		if !recorded {
			return nil, false
		}
		return left(recordedValue, "", "the Node is deleted; run this again when it has registered")
	}
	value, shown := s.Judge(inputs).Items()[key]
	switch {
	case !shown && !recorded:
		return nil, false
	case s.Unreadable != nil:
		return left(value, "", "the record cannot be read")
	case s.Record != nil && s.Record.Quarantined != nil:
		return left(value, "", "an operator must decide between two machines of this name: nodekeep accept record")
	case !shown:
		return left(recordedValue, "", "the Node does not show it")
	}
	_, r, last := s.Simulate(inputs)
	recordedValue, recorded = nodestate.ItemsOf(r)[key]
	ruleLabel, by := last.Rules.Labels[key], last.Rules.Blocked[key]
	winner := cmp.Or(ruleLabel, last.Rules.Taken[key])
	switch keeps, reason := s.Judge(inputs).Keeps(key); {
	case winner.Rule == "" && by != "":
		return left(value, by, "a fact that the rule asks for is not known")
	case winner.Rule == "":
		return left(value, "", "no rule sets it on this Node")
	case rule != "" && winner.Rule != rule:
		return left(value, winner.Rule, "another rule decides")
	case value != winner.Value:
		return left(value, winner.Rule, fmt.Sprintf("the rule derives %q", winner.Value))
	case recorded && recordedValue != winner.Value:
		return left(recordedValue, winner.Rule, fmt.Sprintf("the record has another value, which the rule's value %q hides", winner.Value))
	case ruleLabel.Rule != "" && !recorded:
		return nil, true
	case !keeps && !recorded:
		return left(value, winner.Rule, reason)
	}
	if wrong := adoptionProblem(s, key, winner, inputs); wrong != "" {
		return left(value, winner.Rule, wrong)
	}
	return &AdoptedLabel{Node: s.Name, Value: value, Rule: winner.Rule}, false
}

// adoptionProblem returns why the label would still count as the operator's after the change; empty: it would not.
func adoptionProblem(s nodestate.State, key string, label record.RuleLabel, inputs plan.Inputs) string {
	node := observe.FromNodeWithAnnotations(s.Node, inputs.Policy.Annotations())
	change := AdoptingChange(node, AdoptedLabel{Value: label.Value, Rule: label.Rule}, key)
	if !policy.RoomFor(change.RuleLabels, node.AnnotationBytes) {
		return "the annotations of the Node have no room for the list of labels that rules set"
	}
	updated := s.Node.DeepCopy()
	updated.ResourceVersion = (node.Version + 1).String()
	if updated.Annotations == nil {
		updated.Annotations = map[string]string{}
	}
	updated.Annotations[policy.LabelsAnnotation] = policy.AnnotationContent{Labels: change.RuleLabels}.Annotations(0)[policy.LabelsAnnotation]
	r, _ := s.RecordOrEmpty().Rebase(inputs.ClusterUID, node.Version)
	adopted := observe.FromNodeWithAnnotations(updated, inputs.Policy.Annotations())
	e, known := record.Merge(r, adopted.Observation(r, inputs.Policy, inputs.GuardInForce)).Entry(key)
	switch {
	case !known || e.Removed:
		return ""
	case !inputs.GuardInForce && !policy.AllowedForKubelet(key):
		return "the guard policies are not in force, so a kubelet could hand over a label that it may not set"
	default:
		return "the record does not show yet who set it on this Node object; run this again"
	}
}

// AdoptingChange returns the change of a Node that hands a label over. It only writes the annotation that capture writes, too.
func AdoptingChange(node *observe.Node, label AdoptedLabel, key string) plan.Plan {
	listed := maps.Clone(node.AnnotatedLabels())
	if listed == nil {
		listed = map[string]record.RuleLabel{}
	}
	listed[key] = record.RuleLabel{Value: label.Value, Rule: label.Rule, Adopted: true}
	return plan.Plan{RuleLabels: listed, WriteLabelsAnnotation: true}
}

// AdoptedLabels are labels that differ in nothing but their Node.
type AdoptedLabels struct {
	AdoptedLabel
	NodeCount
}

// Grouped returns labels with the number of their Nodes, the most first.
func Grouped(labels []AdoptedLabel) []AdoptedLabels {
	var groups countMap[AdoptedLabel, AdoptedLabels]
	for _, label := range labels {
		node := label.Node
		label.Node = ""
		groups.entry(label, len(labels), AdoptedLabels{AdoptedLabel: label}).add(node)
	}
	return groups.sorted(func(x, y AdoptedLabels) int {
		return cmp.Or(cmp.Compare(y.Nodes, x.Nodes), cmp.Compare(x.Value, y.Value), cmp.Compare(x.Rule, y.Rule), cmp.Compare(x.Reason, y.Reason))
	})
}
