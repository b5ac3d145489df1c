package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nodekeep.dev/nodekeep/policy"
)

// Claimed is what another component sets by an annotation of Nodes, and nodekeep restores too.
type Claimed struct {
	Owner, Annotation string
	Items             map[string]bool
	Nodes             Sample[string] // names
}

// AddClaims takes note of the items that a Node shows, that its annotations claim, and that the policy restores.
func (n *Nodes) AddClaims(name string, claims []policy.Claim, items map[string]string, p policy.Policy) {
	named := map[int]bool{}
	for _, claim := range claims {
		for item := range items {
			if !claim.Covers(item) || !p.Restores(item) {
				continue
			}
			i := slices.IndexFunc(n.Claimed, func(claimed Claimed) bool { return claimed.Annotation == claim.Annotation })
			if i < 0 {
				i = len(n.Claimed)
				n.Claimed = append(n.Claimed, Claimed{Owner: claim.Owner, Annotation: claim.Annotation, Items: map[string]bool{}})
			}
			claimed := &n.Claimed[i]
			claimed.Items[item] = true
			if !named[i] {
				named[i] = true
				claimed.Nodes.Add(name)
			}
		}
	}
}

// judgeClaims reports which labels and taints both nodekeep and another component set.
func judgeClaims(seen Installation) answer {
	a := answer{okText: "no component says that it sets what nodekeep restores"}
	addUnknown(&a, "", seen.Nodes)
	claimed := slices.SortedFunc(slices.Values(seen.Nodes.Value.Claimed), func(x, y Claimed) int { return cmp.Compare(x.Annotation, y.Annotation) })
	for _, by := range claimed {
		var items Sample[string]
		for _, item := range slices.Sorted(maps.Keys(by.Items)) {
			items.Add(item)
		}
		remedy := newRemedy("Declare each in one place. To leave it to the component, list it in labels.ignore or taints.ignore of the policy.",
			"nodekeep explain "+by.Nodes.First[0])
		a.add(Note, "", remedy, "%s says in %s of %s that it sets %s; nodekeep restores that all the same", // a kubelet can write it: nothing follows
			by.Owner, by.Annotation, sampleText(by.Nodes, "Nodes"), sampleText(items, "items"))
	}
	if len(claimed) > 0 {
		a.okText = "see the notes below"
	}
	return a
}

// sampleText names the first of many and shows how many more there are.
func sampleText(sample Sample[string], noun string) string {
	names := strings.Join(sample.First, ", ")
	if left := sample.left(); left > 0 {
		return fmt.Sprintf("%s and %d more %s", names, left, noun)
	}
	return names
}
