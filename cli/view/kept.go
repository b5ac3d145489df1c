package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
)

// KeptItem is a label, taint or annotation that Nodes show and a policy keeps. Many labels of one domain with the same managers are one.
type KeptItem struct {
	// Item is its key, a taint's with the effect. Of many labels it is a glob that matches them, for example "example.com/*".
	Item string `json:"item"`
	// Keys are those of the labels that it counts, sorted.
	Keys []string `json:"keys"`
	// Managers are the clients that have set it, by managedFields, else by the record; none where none is known, as of each taint.
	Managers []string `json:"managers,omitempty"`
	// Unexpected says that it is known who has set it, and that none of them is a known client of operators.
	Unexpected bool `json:"unexpected,omitempty"`
	// Why is why the policy keeps it.
	Why string `json:"why"`
	// Example is one of them with its value, as the first of the Nodes shows it.
	Example string `json:"example"`
	NodeCount
}

// mostKept bounds how many items are told apart.
const mostKept = 10_000

// How many labels are listed one by one.
const (
	alone          = 3  // of one domain
	aloneNoDomains = 20 // that have no domain: these have little in common
)

// keptItems counts Nodes by item, and by group.
type keptItems struct {
	items  tally[keptKey, KeptItem]
	groups tally[keptKey, KeptItem]
}

// keptKey is what an item or, without one, a group is counted by.
type keptKey struct{ group, managers, why, item string }

// see counts what a Node shows.
func (k *keptItems) see(node string, j Judgement) {
	counted := map[keptKey]bool{}
	for _, item := range sortedItems(j.Items()) {
		keeps, why := j.Keeps(item)
		if !keeps {
			continue
		}
		managers := j.setters(item)
		key := keptKey{group: groupOf(item), managers: strings.Join(managers, "\n"), why: why, item: item}
		begin := KeptItem{Item: item, Managers: managers, Unexpected: j.unexpected(item), Why: why, Example: exampleOf(item, j.Items()[item])}
		of := k.items.at(key, mostKept, begin)
		if of == nil {
			continue
		}
		of.see(node)
		key.item = ""
		group := k.groups.at(key, mostKept, begin)
		if of.Nodes == 1 {
			of.Keys, group.Keys = []string{item}, append(group.Keys, item)
		}
		if !counted[key] {
			counted[key] = true
			group.see(node)
		}
	}
}

// all begins with what no known client of operators has set. Large groups are one.
func (k *keptItems) all() []KeptItem {
	rows := []KeptItem{}
	for key, group := range k.groups.counts {
		if folded, ok := group.folded(); ok {
			rows = append(rows, folded)
			continue
		}
		for _, item := range group.Keys {
			key.item = item
			rows = append(rows, *k.items.counts[key])
		}
	}
	slices.SortFunc(rows, func(a, b KeptItem) int {
		order := func(of KeptItem) int { return map[bool]int{true: 0, false: 1}[of.Unexpected] }
		return cmp.Or(cmp.Compare(order(a), order(b)), compareItems(a.Keys[0], b.Keys[0]), slices.Compare(a.Managers, b.Managers), cmp.Compare(a.Why, b.Why))
	})
	return rows
}

// folded is a group as one item; ok is false where its items are better listed one by one.
func (k KeptItem) folded() (folded KeptItem, ok bool) {
	domain, common := domainOf(k.Keys[0]), true
	suffix := strings.Split(domain, ".")
	for _, key := range k.Keys[1:] {
		other := domainOf(key)
		parts := strings.Split(other, ".")
		common = common && other == domain
		same := 0
		for same < min(len(parts), len(suffix)) && parts[len(parts)-1-same] == suffix[len(suffix)-1-same] {
			same++
		}
		suffix = suffix[len(suffix)-same:]
	}
	k.Keys = slices.Sorted(slices.Values(k.Keys))
	switch {
	case domain == "":
		k.Item = "*"
		return k, len(k.Keys) > aloneNoDomains
	case common:
		k.Item = domain + "/*"
	default:
		k.Item = "*" + strings.Join(suffix, ".") + "/*"
	}
	return k, len(k.Keys) > alone
}

// groupOf is what items have in common that are counted together: the domain of a vendor. A domain of Kubernetes is one by itself.
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

// domainOf is the part of a key before the slash.
func domainOf(key string) string {
	domain, _, _ := strings.Cut(key, "/")
	if domain == key {
		return ""
	}
	return domain
}

// exampleOf is an item with its value, as kubectl writes it.
func exampleOf(item, value string) string {
	if record.IsTaint(item) {
		taint := record.Taint(item, value)
		return taint.ToString()
	}
	return item + "=" + shown(&value)
}

// note is what an operator may want to know of it, or to do.
func (k KeptItem) note() string {
	switch managers := strings.Join(k.Managers, ", "); {
	case !k.Unexpected:
		return k.Why
	case len(k.Managers) == 1:
		return "kept, though only " + managers + " set it: add it to ignoreManagers, or keep it"
	default:
		return "kept, though only " + managers + " set it: add them to ignoreManagers, or keep it"
	}
}

func keptTable(all []KeptItem) *metav1.Table {
	table := tableOf("Kept", "Key", "Set by", "Nodes", "Example", "Why", "+Such as")
	for _, of := range all {
		key := of.Item
		if len(of.Keys) > 1 {
			key += fmt.Sprintf(" (%d keys)", len(of.Keys))
		}
		add(table, kindOf(of.Keys[0]), key, orNone(strings.Join(of.Managers, ",")), of.Nodes, of.Example+" on "+of.First[0], of.note(), strings.Join(of.First, ","))
	}
	return table
}
