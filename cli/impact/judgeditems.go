package impact

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/record"
)

// JudgedItem is a label, taint or annotation that Nodes show, and why a policy keeps it or does not. Many labels of one domain, with the same managers
// and for the same reason, are one.
type JudgedItem struct {
	// Item is its key, a taint's with the effect. Of many labels it is a glob that matches them, for example "example.com/*".
	Item string `json:"item"`
	// Keys are those that it stands for, sorted.
	Keys []string `json:"keys"`
	// Managers are the clients that set what is kept, by managedFields, else by the record. It is empty where none is known, as of each taint.
	Managers []string `json:"managers,omitempty"`
	// Unexpected says that it is kept though none of its managers is a known client of operators.
	Unexpected bool `json:"unexpected,omitempty"`
	// Reason names the pattern of the policy, the component that owns the key, or the managers.
	Reason string `json:"why"`
	// Example is one of the keys with its value, as the first of the Nodes shows it.
	Example string `json:"example"`
	// ByRules is true of what rules of the policy set, add or remove.
	ByRules bool `json:"-"`
	NodeCount
}

// Name returns what it is called in a text.
func (i JudgedItem) Name() string {
	switch {
	case len(i.Keys) == 1:
		return i.Item
	case domainOf(i.Keys[0]) == "":
		return fmt.Sprintf("%s (%d keys without a domain)", i.Item, len(i.Keys))
	default:
		return fmt.Sprintf("%s (%d keys)", i.Item, len(i.Keys))
	}
}

// JudgedItems counts what Nodes show, by whether it is kept.
type JudgedItems struct{ kept, notKept itemGroups }

// Add counts what a Node shows.
func (all *JudgedItems) Add(node string, j nodestate.Judgement) {
	kept, notKept := map[groupKey]bool{}, map[groupKey]bool{}
	for _, item := range nodestate.SortedItems(j.Items()) {
		keeps, reason := j.Keeps(item)
		entry := JudgedItem{Item: item, Reason: reason, Example: exampleOf(item, j.Items()[item])}
		if !keeps {
			entry.ByRules = j.ByRules(item)
			all.notKept.add(entry, node, notKept)
			continue
		}
		entry.Managers, entry.Unexpected = j.Managers(item), j.Unexpected(item)
		all.kept.add(entry, node, kept)
	}
}

// Kept returns the kept items, first those that no known client of operators has set.
func (all *JudgedItems) Kept() []JudgedItem {
	unexpected := func(i JudgedItem) int { return map[bool]int{true: 0, false: 1}[i.Unexpected] }
	return all.kept.rows(func(a, b JudgedItem) int {
		return cmp.Or(cmp.Compare(unexpected(a), unexpected(b)), nodestate.CompareItems(a.Keys[0], b.Keys[0]), slices.Compare(a.Managers, b.Managers), cmp.Compare(a.Reason, b.Reason))
	})
}

// NotKept returns the items that are not kept, by reason, and so by owner.
func (all *JudgedItems) NotKept() []JudgedItem {
	return all.notKept.rows(func(a, b JudgedItem) int {
		return cmp.Or(cmp.Compare(a.Reason, b.Reason), nodestate.CompareItems(a.Keys[0], b.Keys[0]))
	})
}

// mostItems bounds what is counted.
const mostItems = 10_000

// itemGroups counts Nodes by item, and by group of items.
type itemGroups struct {
	items  countMap[groupKey, JudgedItem]
	groups countMap[groupKey, JudgedItem]
}

// groupKey is what an item is counted by; without the item, its group.
type groupKey struct{ group, managers, reason, item string }

// add counts an item of a Node. The groups that were counted of that Node are in counted.
func (g *itemGroups) add(entry JudgedItem, node string, counted map[groupKey]bool) {
	key := groupKey{groupOf(entry.Item), strings.Join(entry.Managers, "\n"), entry.Reason, entry.Item}
	item := g.items.entry(key, mostItems, entry)
	if item == nil {
		return
	}
	item.add(node)
	key.item = ""
	group := g.groups.entry(key, mostItems, entry)
	if item.Nodes == 1 {
		item.Keys, group.Keys = []string{entry.Item}, append(group.Keys, entry.Item)
	}
	if !counted[key] {
		counted[key] = true
		group.add(node)
	}
}

// rows returns a row for each item, or one for a large group.
func (g *itemGroups) rows(compare func(a, b JudgedItem) int) []JudgedItem {
	rows := []JudgedItem{}
	for key, group := range g.groups.counts {
		if folds(group.Keys) {
			folded := *group
			folded.Keys = slices.Sorted(slices.Values(group.Keys))
			folded.Item = globOf(folded.Keys)
			rows = append(rows, folded)
			continue
		}
		for _, item := range group.Keys {
			key.item = item
			rows = append(rows, *g.items.counts[key])
		}
	}
	slices.SortFunc(rows, compare)
	return rows
}

// How many labels are listed one by one.
const (
	mostOfDomain      = 3  // that have a domain in common
	mostWithoutDomain = 20 // that have none: they have little in common
)

// folds reports whether the items of a group are better listed as one.
func folds(keys []string) bool {
	if domainOf(keys[0]) == "" {
		return len(keys) > mostWithoutDomain
	}
	return len(keys) > mostOfDomain
}

// globOf matches keys of one vendor: "example.com/*" or, for those of several domains, "*.example.com/*".
func globOf(keys []string) string {
	common, alike := domainOf(keys[0]), true
	for _, key := range keys[1:] {
		domain := domainOf(key)
		for common != "" && domain != common && !strings.HasSuffix(domain, "."+common) {
			_, common, _ = strings.Cut(common, ".")
		}
		alike = alike && domain == domainOf(keys[0])
	}
	switch {
	case common == "":
		return "*"
	case alike:
		return common + "/*"
	case slices.ContainsFunc(keys, func(key string) bool { return domainOf(key) == common }):
		return "*" + common + "/*"
	default:
		return "*." + common + "/*"
	}
}

// groupOf returns what items have in common that are counted together: the domain of a vendor. Each domain of Kubernetes is one by itself.
func groupOf(item string) string {
	if record.IsTaint(item) {
		return item
	}
	domain := domainOf(item)
	parts := strings.Split(domain, ".")
	vendor := strings.Join(parts[max(0, len(parts)-2):], ".")
	if vendor == "kubernetes.io" || vendor == "k8s.io" {
		return domain
	}
	return vendor
}

// domainOf returns the part of a key before the slash; empty where there is none.
func domainOf(key string) string {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return ""
	}
	return domain
}

// exampleOf returns an item with its value, as kubectl writes it.
func exampleOf(item, value string) string {
	if record.IsTaint(item) {
		taint := record.Taint(item, value)
		return taint.ToString()
	}
	return item + "=" + nodestate.FormatValue(&value)
}
