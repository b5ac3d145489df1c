package doctor

import "nodekeep.dev/nodekeep/cli/impact"

// NotKept is what Nodes show and the policy does not keep, for one reason.
type NotKept struct {
	Why   string
	Items Few[string]
}

// NotKeptOf groups items, sorted by reason, by their reasons. What rules of the policy decide is left out: they set it again.
func NotKeptOf(items []impact.JudgedItem) (all []NotKept) {
	for _, of := range items {
		if of.ByRules {
			continue
		}
		if last := len(all) - 1; last < 0 || all[last].Why != of.Why {
			all = append(all, NotKept{Why: of.Why})
		}
		all[len(all)-1].Items.Add(of.Name())
	}
	return all
}

// judgeNotKept reports which labels and taints of Nodes are lost with their Node. Most belong to components that set them again.
func judgeNotKept(seen Seen) answer {
	a := answer{ok: "every label and taint of the Nodes is kept"}
	if seen.Nodes.Found {
		lacks(&a, "", seen.Nodes.Value.NotKept)
	} else {
		lacks(&a, "", seen.Nodes)
	}
	remedy := advice("The component that owns such a key sets it again. If an operator set it, see on which Nodes, "+
		"and change labels.keep, labels.ignore or taints.ignore of the policy:", seen.policyTo("nodekeep policy check - --against-cluster -o wide"))
	for _, of := range seen.Nodes.Value.NotKept.Value {
		a.find(Note, "", remedy, "not kept (%s): %s", of.Why, listing(of.Items, "items"))
	}
	if len(a.findings) > 0 {
		a.ok = "see the notes below"
	}
	return a
}
