package classify

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// inventoryGroup begins the facts of inventories.
const inventoryGroup = "inventory"

// InventoryFactPrefix begins [Test.Fact] of a fact from an inventory; source and attribute follow.
const InventoryFactPrefix = inventoryGroup + "."

// attributed compares an attribute of an inventory with a pattern.
type attributed struct {
	fact, source, attribute, pattern string
}

// LooksAtInventory reports whether a rule uses an inventory.
func (r Rules) LooksAtInventory() bool { return r.uses.inventory }

// FromInventory returns the labels that need what an inventory says: other facts alone do not decide them.
func (r Rules) FromInventory(result Result) (keys []string) {
	for key, label := range result.Labels {
		if i, decides := r.find(label, key, 0); decides && r.all[i].inventory && !label.Absent {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// markInventory marks rules that select on labels which need what an inventory says.
func (r Rules) markInventory() {
	keys := sets.New[string]()
	for i := range r.all {
		rule := &r.all[i]
		rule.inventory = rule.inventory || keys.HasAny(rule.selects()...)
		if rule.inventory {
			keys.Insert(rule.keys...)
		}
	}
}

// lists reports whether an inventory lists the Node with such a value. If the inventory is not known, or does not have the attribute, that is not
// known.
func (f *Facts) lists(wanted attributed, trace *trace) truth {
	value, known := f.Inventory[wanted.source][wanted.attribute]
	holds := unknown
	if known {
		holds = truthOf(value != "" && Match(wanted.pattern, value))
	}
	return trace.test(wanted.fact, wanted.pattern, value, holds)
}

func (t template) inventory() bool {
	return slices.ContainsFunc(t.facts, func(fact factName) bool { return fact.group == inventoryGroup })
}
