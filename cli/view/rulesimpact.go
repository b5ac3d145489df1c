package view

import (
	"cmp"
	"fmt"
	"strings"

	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/nodestate"
)

// rulesImpactText says what the rules would do. A policy without rules removes the labels of earlier rules.
func rulesImpactText(i impact.RulesImpact) string {
	if i.Altered == 0 && !i.Held {
		return RulesNamed(i.Rules) + " would remove and change no label"
	}
	text := fmt.Sprintf("%s would remove or change labels on %s", RulesNamed(i.Rules), Counted(i.Altered, "Node"))
	if i.Held {
		text += fmt.Sprintf(", once an operator accepts that: nodekeep accept rules %s", i.Rules)
	}
	return text
}

// addRulesImpact adds what rules would change.
func (d *Document) addRulesImpact(i impact.RulesImpact) {
	if !i.HasRules {
		return
	}
	d.addFact("Label rules", rulesImpactText(i))
	if i.Omitted > 0 {
		d.addFact("Not listed", fmt.Sprintf("%d more changes of labels by rules", i.Omitted))
	}
	table := tableOf("By rules", "Key", "Now", "Then", "Rule", "Nodes", "+Such as")
	for _, c := range i.Labels {
		text := map[impact.RuleChangeKind]string{impact.RuleLeaves: "kept: set by an operator or the kubelet", impact.RuleBlocked: "blocked: a fact is not known"}[c.Kind]
		addRow(table, cmp.Or(text, string(c.Kind)), c.Key, nodestate.FormatValue(c.Now), nodestate.FormatValue(c.Planned), orDash(c.Rule), c.Nodes, strings.Join(c.First, ","))
	}
	d.Tables = append(d.Tables, table)
}
