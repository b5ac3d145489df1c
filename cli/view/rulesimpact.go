package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"nodekeep.dev/nodekeep/capture/rollout"
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
	// More counts what is left out because so many changes are listed already.
	More int `json:"more,omitempty"`

	rules bool // there are rules, or labels of rules
}

// RuleChange is what rules do about a label, on all Nodes of which the same is true.
type RuleChange struct {
	Kind RuleChangeKind `json:"change"`
	Key  string         `json:"key"`
	Now  *string        `json:"now,omitempty"`  // the value that the Nodes have
	Then *string        `json:"then,omitempty"` // the value that the rule derives, or that an operator set before
	Rule string         `json:"rule,omitempty"`
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

// Altered counts the Nodes on which rules remove or change labels. From the renamed ones, migrations remove the old key.
type Altered struct{ Of, Changed, Renamed int }

// See counts a Node that is there, by the decisions of capture.
func (a *Altered) See(s NodeState, in plan.Circumstances) {
	if s.Node == nil {
		return
	}
	node := observe.OfKeeping(s.Node, in.Policy.Annotations())
	if node.Fault != nil {
		return
	}
	a.Of++
	if plan.RulesAlter(s.record(), node, in) {
		a.Changed++
	}
	if plan.MigrationsRemove(s.record(), node, in) {
		a.Renamed++
	}
}

// ruleComparison counts what rules change. Its size is bounded.
type ruleComparison struct {
	altered Altered
	listed  int // Nodes that list labels of rules
	changes tally[ruleChangeKey, RuleChange]
}

type ruleChangeKey struct {
	kind                 RuleChangeKind
	key, now, then, rule string
}

// see counts one Node, by the decisions of capture.
func (c *ruleComparison) see(s NodeState, then plan.Circumstances) {
	node := observe.OfKeeping(s.Node, then.Policy.Annotations())
	if node.Fault != nil {
		return
	}
	c.altered.See(s, then)
	if len(node.ListedLabels()) > 0 {
		c.listed++
	}
	if s.Unreadable != nil { // capture leaves the Node alone
		return
	}
	_, _, next := s.settled(then)
	for _, edit := range next.ByRules() {
		kind, then := RuleAdds, &edit.Value
		switch {
		case edit.Removed:
			kind, then = RuleRemoves, nil
		case node.Shows(edit.Item):
			kind = RuleChanges
		}
		c.count(kind, edit.Item, valueIn(node.Items, edit.Item), then, next.RuledBy(edit), s.Name)
	}
	for key, label := range next.Rules.Taken {
		c.count(RuleLeaves, key, valueIn(node.Items, key), &label.Value, label.Rule, s.Name)
	}
	for key, rule := range next.Rules.Blocked {
		c.count(RuleBlocked, key, valueIn(node.Items, key), nil, rule, s.Name)
	}
}

func (c *ruleComparison) count(kind RuleChangeKind, key string, now, then *string, rule, node string) {
	what := ruleChangeKey{kind, key, shown(now), shown(then), rule}
	if change := c.changes.at(what, mostChanges, RuleChange{Kind: kind, Key: key, Now: now, Then: then, Rule: rule}); change != nil {
		change.see(node)
	}
}

// impact returns what was counted.
func (c *ruleComparison) impact(p policy.Policy, inForce string) RulesImpact {
	order := func(r RuleChange) int { return slices.Index(ruleKinds(), r.Kind) }
	labels := c.changes.sorted(func(a, b RuleChange) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(order(a), order(b)), cmp.Compare(b.Nodes, a.Nodes),
			strings.Compare(shown(a.Now), shown(b.Now)), strings.Compare(shown(a.Then), shown(b.Then)), strings.Compare(a.Rule, b.Rule))
	})
	held := p.RulesHash() != inForce && rollout.RulesNeedAcceptance(c.altered.Changed, c.altered.Renamed, c.altered.Of)
	return RulesImpact{
		Rules: p.RulesHash(), Altered: c.altered.Changed, Held: held, Renamed: c.altered.Renamed, Labels: labels, More: c.changes.more,
		rules: !p.LabelRules().Empty() || c.listed > 0,
	}
}

// changed reports whether rules change a label.
func (i RulesImpact) changed() bool {
	return slices.ContainsFunc(i.Labels, func(c RuleChange) bool { return c.Kind != RuleLeaves && c.Kind != RuleBlocked })
}

// text says what the rules would do. A policy without rules removes the labels of earlier rules.
func (i RulesImpact) text() string {
	if i.Altered == 0 && !i.Held {
		return RulesNamed(i.Rules) + " would remove and change no label"
	}
	text := fmt.Sprintf("%s would remove or change labels on %s", RulesNamed(i.Rules), Counted(i.Altered, "Node"))
	if i.Held {
		text += fmt.Sprintf(", once an operator accepts that: nodekeep policy accept %s", i.Rules)
	}
	return text
}

func (i RulesImpact) document(d *Document) {
	if !i.rules {
		return
	}
	d.with("Label rules", i.text())
	if i.More > 0 {
		d.with("Not listed", fmt.Sprintf("%d more changes of labels by rules", i.More))
	}
	table := tableOf("By rules", "Key", "Now", "Then", "Rule", "Nodes", "+Such as")
	for _, c := range i.Labels {
		text := map[RuleChangeKind]string{RuleLeaves: "kept: set by an operator or the kubelet", RuleBlocked: "blocked: a fact is not known"}[c.Kind]
		add(table, cmp.Or(text, string(c.Kind)), c.Key, shown(c.Now), shown(c.Then), orNone(c.Rule), c.Nodes, strings.Join(c.First, ","))
	}
	d.Tables = append(d.Tables, table)
}
