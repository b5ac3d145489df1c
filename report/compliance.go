package report

import (
	"cmp"
	"slices"
)

// Compliance is which Nodes break which rule of governance.
type Compliance struct {
	// Governed says that the policy has the section governance. Without it nothing is judged.
	Governed  bool            `json:"governed"`
	Compliant int             `json:"compliantNodes"`
	Violating int             `json:"violatingNodes"`
	Rules     []BrokenRule    `json:"rules"`      // the most Nodes first
	Details   []NodeViolation `json:"violations"` // by Node
	// LeftOut counts violations that are not among them, because there are too many.
	LeftOut int `json:"leftOut,omitempty"`
}

// Violation is one rule that the labels of a Node break.
type Violation struct {
	Rule string `json:"rule"` // the key of the rule; of a reserved key, the pattern
	Kind string `json:"kind"`
	Mode string `json:"mode"`
	Key  string `json:"key"` // of the label
	// Value is that of the label; of kind requires, the key that is missing. It is nil where the label is missing.
	Value *string `json:"value,omitempty"`
}

// BrokenRule is the same violation on several Nodes.
type BrokenRule struct {
	Rule  string   `json:"rule"`
	Kind  string   `json:"kind"`
	Mode  string   `json:"mode"`
	Nodes int      `json:"nodes"`
	First []string `json:"first"` // the first of these Nodes
}

// NodeViolation is a violation of one Node.
type NodeViolation struct {
	Node string `json:"node"`
	Violation
}

// Judged counts violations.
type Judged struct {
	compliance Compliance
	rules      tally[Violation] // without key and value
}

// NewJudged counts nothing yet. governed says whether there are rules.
func NewJudged(governed bool) *Judged {
	return &Judged{compliance: Compliance{Governed: governed, Rules: []BrokenRule{}, Details: []NodeViolation{}}, rules: tally[Violation]{}}
}

// See counts a Node with all that is wrong with it.
func (j *Judged) See(node string, violations []Violation) {
	if len(violations) == 0 {
		j.compliance.Compliant++
		return
	}
	j.compliance.Violating++
	counted := map[Violation]bool{} // a Node counts once, however many reserved keys it has
	for _, violation := range violations {
		if len(j.compliance.Details) < maxDetails {
			j.compliance.Details = append(j.compliance.Details, NodeViolation{node, violation})
		} else {
			j.compliance.LeftOut++
		}
		key := violation
		key.Key, key.Value = "", nil
		if counted[key] {
			continue
		}
		counted[key] = true
		j.rules.count(key, node)
	}
}

// Compliance returns what was counted.
func (j *Judged) Compliance() *Compliance {
	c := j.compliance
	for violation, counted := range j.rules {
		c.Rules = append(c.Rules, BrokenRule{Rule: violation.Rule, Kind: violation.Kind, Mode: violation.Mode, Nodes: counted.nodes, First: counted.first})
	}
	slices.SortFunc(c.Rules, func(a, b BrokenRule) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Mode, b.Mode))
	})
	return &c
}

// notGoverned is what there is to say without rules.
const notGoverned = "The policy has no section governance, so no label is judged."

func (c Compliance) tables() []Table {
	nodes := Table{Name: "compliance", Title: "Compliance", Columns: []Column{text("Nodes"), number("Count")}}
	if !c.Governed {
		nodes.Note = notGoverned
		return []Table{nodes}
	}
	nodes.add("compliant", c.Compliant)
	nodes.add("with violations", c.Violating)
	rules := Table{Name: "rules", Title: "Violations by rule", Columns: []Column{text("Rule"), text("Kind"), text("Mode"), number("Nodes"), text("Such as")}}
	for _, rule := range c.Rules {
		rules.add(rule.Rule, rule.Kind, rule.Mode, rule.Nodes, listIn(rule.First))
	}
	details := Table{Name: "violations", Title: "Violations by Node", Columns: []Column{text("Node"), text("Kind"), text("Key"), text("Value"), text("Mode")}}
	for _, v := range c.Details {
		details.add(v.Node, v.Kind, v.Key, valueIn(v.Value), v.Mode)
	}
	if c.LeftOut > 0 {
		details.Note = "There are more violations, which are left out."
	}
	return []Table{nodes, rules, details}
}
