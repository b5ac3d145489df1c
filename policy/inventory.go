package policy

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/inventory"
)

// Inventory returns the section inventory: sources of facts from outside. The slice is not to be changed.
func (p Policy) Inventory() []inventory.Source { return p.inventory }

// readInventory checks the section inventory: what [inventory.Compile] checks, and that a source has each fact that rules use.
func (p *Policy) readInventory(sources []inventory.Entry, rules []classify.Rule, path, rulesPath *field.Path) (errs field.ErrorList) {
	p.inventory, errs = inventory.Compile(sources, path)
	for i, rule := range rules {
		for _, fact := range rule.InventoryFacts(rulesPath.Index(i)) {
			i := slices.IndexFunc(sources, func(source inventory.Entry) bool { return source.Name == fact.Source })
			switch {
			case fact.Source == "" || fact.Attribute == "": // reported elsewhere
			case i < 0:
				errs = append(errs, field.Invalid(fact.Path, fact.Source, "is no source: the section inventory has none of this name"))
			case !slices.Contains(sources[i].Attributes, fact.Attribute):
				errs = append(errs, field.Invalid(fact.Path, fact.Attribute, fmt.Sprintf("is not kept: add it to attributes of source %s in the section inventory", fact.Source)))
			}
		}
	}
	return errs
}
