package impact

import (
	"cmp"
	"slices"
	"strings"

	"nodekeep.dev/nodekeep/capture/rollout"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
)

// RulesImpact is what labels.rules of a policy change on the Nodes as they are now.
type RulesImpact struct {
	Rules string `json:"rules"` // their hash
	// Altered is on how many Nodes they remove or change labels that rules have set.
	Altered int `json:"altered"`
	// Held shows that these rules would only add labels until an operator accepts them.
	Held bool `json:"held"`
	// Renamed is from how many Nodes migrations remove the old key.
	Renamed int          `json:"renamed,omitempty"`
	Labels  []RuleChange `json:"labels"`
	// Omitted counts what is left out because so many changes are listed already.
	Omitted int `json:"more,omitempty"`

	HasRules bool `json:"-"` // there are rules, or labels of rules
}

// RuleChange is what rules do about a label, on all Nodes of which the same is true.
type RuleChange struct {
	Kind    RuleChangeKind `json:"change"`
	Key     string         `json:"key"`
	Now     *string        `json:"now,omitempty"`  // the value that the Nodes have
	Planned *string        `json:"then,omitempty"` // the value that the rule derives, or that an operator set before
	Rule    string         `json:"rule,omitempty"`
	NodeCount
}

// RuleChangeKind defines what rules do about a label.
type RuleChangeKind string

// The kinds, in the order in which they are shown.
const (
	RuleAdds    RuleChangeKind = "added"
	RuleChanges RuleChangeKind = "changed"
	RuleRemoves RuleChangeKind = "removed"
	RuleLeaves  RuleChangeKind = "kept"    // an operator or the kubelet has set it
	RuleBlocked RuleChangeKind = "blocked" // a fact is not known, so it stays as it is
)

func ruleKinds() []RuleChangeKind {
	return []RuleChangeKind{RuleAdds, RuleChanges, RuleRemoves, RuleLeaves, RuleBlocked}
}

// RuleEffects counts the Nodes on which rules remove or change labels. From the renamed ones, migrations remove the old key.
type RuleEffects struct{ Total, Changed, Renamed int }

// Add counts a Node that is there, by the decisions of capture.
func (a *RuleEffects) Add(s nodestate.State, inputs plan.Inputs) {
	if s.Node == nil {
		return
	}
	node := observe.FromNodeWithAnnotations(s.Node, inputs.Policy.Annotations())
	if node.Fault != nil {
		return
	}
	a.Total++
	if plan.RulesRemoveOrReplaceLabels(s.RecordOrEmpty(), node, inputs) {
		a.Changed++
	}
	if plan.MigrationsRemoveLabel(s.RecordOrEmpty(), node, inputs) {
		a.Renamed++
	}
}

// ruleComparison counts what rules change. Its size is bounded.
type ruleComparison struct {
	effects RuleEffects
	listed  int // Nodes that list labels of rules
	changes countMap[ruleChangeKey, RuleChange]
}

type ruleChangeKey struct {
	kind                    RuleChangeKind
	key, now, planned, rule string
}

// add counts one Node, by the decisions of capture.
func (c *ruleComparison) add(s nodestate.State, planned plan.Inputs) {
	node := observe.FromNodeWithAnnotations(s.Node, planned.Policy.Annotations())
	if node.Fault != nil {
		return
	}
	c.effects.Add(s, planned)
	if len(node.AnnotatedLabels()) > 0 {
		c.listed++
	}
	if s.Unreadable != nil { // capture leaves the Node alone
		return
	}
	_, _, next := s.Simulate(planned)
	for _, edit := range next.RuleEdits() {
		kind, planned := RuleAdds, &edit.Value
		switch {
		case edit.Removed:
			kind, planned = RuleRemoves, nil
		case node.Shows(edit.Item):
			kind = RuleChanges
		}
		c.count(kind, edit.Item, nodestate.ValueIn(node.Items, edit.Item), planned, next.RuleOf(edit), s.Name)
	}
	for key, label := range next.Rules.Taken {
		c.count(RuleLeaves, key, nodestate.ValueIn(node.Items, key), &label.Value, label.Rule, s.Name)
	}
	for key, rule := range next.Rules.Blocked {
		c.count(RuleBlocked, key, nodestate.ValueIn(node.Items, key), nil, rule, s.Name)
	}
}

func (c *ruleComparison) count(kind RuleChangeKind, key string, now, planned *string, rule, node string) {
	entry := ruleChangeKey{kind, key, nodestate.FormatValue(now), nodestate.FormatValue(planned), rule}
	if change := c.changes.entry(entry, maxChanges, RuleChange{Kind: kind, Key: key, Now: now, Planned: planned, Rule: rule}); change != nil {
		change.add(node)
	}
}

// impact returns what was counted.
func (c *ruleComparison) impact(p policy.Policy, inForce string) RulesImpact {
	order := func(r RuleChange) int { return slices.Index(ruleKinds(), r.Kind) }
	labels := c.changes.sorted(func(a, b RuleChange) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(order(a), order(b)), cmp.Compare(b.Nodes, a.Nodes),
			strings.Compare(nodestate.FormatValue(a.Now), nodestate.FormatValue(b.Now)), strings.Compare(nodestate.FormatValue(a.Planned), nodestate.FormatValue(b.Planned)), strings.Compare(a.Rule, b.Rule))
	})
	held := p.RulesHash() != inForce && rollout.RulesNeedAcceptance(c.effects.Changed, c.effects.Renamed, c.effects.Total)
	return RulesImpact{
		Rules: p.RulesHash(), Altered: c.effects.Changed, Held: held, Renamed: c.effects.Renamed, Labels: labels, Omitted: c.changes.omitted,
		HasRules: !p.LabelRules().Empty() || c.listed > 0,
	}
}

// Changed reports whether rules change a label.
func (i RulesImpact) Changed() bool {
	return slices.ContainsFunc(i.Labels, func(c RuleChange) bool { return c.Kind != RuleLeaves && c.Kind != RuleBlocked })
}
