package doctor

import "nodekeep.dev/nodekeep/cli/impact"

// NotKept is what Nodes show and the policy does not keep, for one reason.
type NotKept struct {
	Reason string
	Items  Sample[string]
}

// NotKeptOf groups items, sorted by reason, by their reasons. What rules of the policy decide is left out: they set it again.
func NotKeptOf(items []impact.JudgedItem) (all []NotKept) {
	for _, item := range items {
		if item.ByRules {
			continue
		}
		if last := len(all) - 1; last < 0 || all[last].Reason != item.Reason {
			all = append(all, NotKept{Reason: item.Reason})
		}
		all[len(all)-1].Items.Add(item.Name())
	}
	return all
}

// judgeNotKept reports which labels and taints of Nodes are lost with their Node. Most belong to components that set them again.
func judgeNotKept(seen Installation) answer {
	a := answer{okText: "every label and taint of the Nodes is kept"}
	if seen.Nodes.Found {
		addUnknown(&a, "", seen.Nodes.Value.NotKept)
	} else {
		addUnknown(&a, "", seen.Nodes)
	}
	remedy := newRemedy("The component that owns such a key sets it again. If an operator set it, see on which Nodes, "+
		"and change labels.keep, labels.ignore or taints.ignore of the policy:", seen.policyTo("nodekeep check - --against-cluster -o wide"))
	for _, notKept := range seen.Nodes.Value.NotKept.Value {
		a.add(Note, "", remedy, "not kept (%s): %s", notKept.Reason, sampleText(notKept.Items, "items"))
	}
	if len(a.findings) > 0 {
		a.okText = "see the notes below"
	}
	return a
}
