package impact

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/policy"
)

// MissingAttributes returns the attributes of inventories that rules ask for and that a source has of no Node. The notes are those of capture. If they
// are nil, capture has noted nothing yet. A source without a snapshot in force is not known.
func MissingAttributes(p policy.Policy, notes *corev1.ConfigMap) (all []MissingFact) {
	for _, ask := range p.LabelRules().Asks() {
		if ask.Kind != classify.AskInventory {
			continue
		}
		source, attribute := ask.InventoryFact()
		status, readable := inventories.SourceStatusOf(notes, source)
		if !readable || status.InForce == "" || !slices.Contains(status.Missing, attribute) {
			continue
		}
		all = append(all, MissingFact{
			Rules: ask.Rules, Fact: ask.Fact,
			Description: fmt.Sprintf("%s for %s, which inventory %s has of none of its Nodes (%d)", askClause(ask.Rules), ask.Fact, source, status.Nodes),
			Next:        "Correct the name of the attribute in the rule and in attributes of the source, or have the inventory list it.",
		})
	}
	return all
}
