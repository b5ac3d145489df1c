package doctor

// NotKept is what Nodes show and the policy does not keep, for one reason.
type NotKept struct {
	Why   string
	Items Few[string]
}

// SeeNotKept takes note of an item of some Node that the policy does not keep. It is called once for each item and reason, those of a reason one
// after the other.
func (n *Nodes) SeeNotKept(item, why string) {
	if last := len(n.NotKept) - 1; last < 0 || n.NotKept[last].Why != why {
		n.NotKept = append(n.NotKept, NotKept{Why: why})
	}
	n.NotKept[len(n.NotKept)-1].Items.Add(item)
}

// judgeNotKept reports which labels and taints of Nodes are lost with their Node. Most belong to components that set them again.
func judgeNotKept(seen Seen) answer {
	a := answer{ok: "every label and taint of the Nodes is kept"}
	lacks(&a, "", seen.Nodes)
	remedy := advice("The component that owns such a key sets it again. If an operator set it, see on which Nodes, "+
		"and change labels.keep, labels.ignore or taints.ignore of the policy:", seen.policyTo("nodekeep policy check - --against-cluster -o wide"))
	for _, of := range seen.Nodes.Value.NotKept {
		a.find(Note, "", remedy, "not kept (%s): %s", of.Why, listing(of.Items, "items"))
	}
	if len(a.findings) > 0 {
		a.ok = "see the notes below"
	}
	return a
}
