package main

import "nodekeep.dev/nodekeep/policy"

// part is one exploration: what may happen, and how often.
type part struct {
	name, about string
	bounds
}

// suite returns what `make model` explores. Each part is exhaustive within its bounds.
func suite() []part {
	taint := [maxKeys]bool{true}
	return []part{
		{"labels", "a label, two captures, three objects", bounds{Keys: 1, Captures: 2, Objects: 3, Edits: 2, Faults: 2}},
		{"label-edits", "a label that changes often, one capture", bounds{Keys: 1, Captures: 1, Objects: 2, Edits: 4, Faults: 2}},
		{"taints", "a taint, two captures", bounds{Keys: 1, Taints: taint, Captures: 2, Objects: 3, Edits: 3, Faults: 1}},
		{"taint-objects", "a taint, three objects, one capture", bounds{Keys: 1, Taints: taint, Captures: 1, Objects: 3, Edits: 3, Faults: 2}},
		{"both", "a label and a taint, and records that go through their JSON", bounds{Keys: 2, Taints: [maxKeys]bool{false, true}, Captures: 1, Objects: 2, Edits: 3, Faults: 1, JSON: true}},
		{"heartbeats", "heartbeats, and deletions that fail", bounds{Keys: 1, Captures: 2, Objects: 2, Edits: 2, Faults: 0, Heartbeats: 1, Cancelled: 1}},
		{"protected", "a label that only capture may restore", bounds{Keys: 1, Captures: 2, Objects: 3, Edits: 2, Faults: 1, Protected: true}},
		{"owners", "a label whose owner is restored with it", bounds{Keys: 1, Captures: 2, Objects: 2, Edits: 3, Faults: 1, Owned: true}},
		{"kubelet", "kubelets with a label of their own, and other admission policies", bounds{Keys: 1, Captures: 2, Objects: 2, Edits: 2, Faults: 0, Kubelet: true, Admission: true}},
		{"kubelet-faults", "the same, one capture and faults", bounds{Keys: 1, Captures: 1, Objects: 2, Edits: 2, Faults: 2, Kubelet: true, Admission: true}},
		{"kubelet-taints", "kubelets that register with a taint", bounds{Keys: 1, Taints: taint, Captures: 2, Objects: 2, Edits: 2, Faults: 1, Kubelet: true, Admission: true}},
		{"policy", "a policy that stops selecting the label, and selects it again", bounds{Keys: 1, Captures: 2, Objects: 2, Edits: 2, Faults: 1, Policies: 2}},
		{"policy-taints", "the same with a taint, and a fault", bounds{Keys: 1, Taints: taint, Captures: 1, Objects: 2, Edits: 2, Faults: 1, Policies: 2}},
		{"annotations", "a client that removes the annotation", bounds{Keys: 1, Captures: 2, Objects: 2, Edits: 2, Faults: 1, Unstamps: 1}},
		{"annotations-taints", "the same with a taint", bounds{Keys: 1, Taints: taint, Captures: 2, Objects: 2, Edits: 2, Faults: 1, Unstamps: 1}},
		{"losses", "a label whose record vanishes, is put back older, or is written manually", bounds{Keys: 1, Captures: 2, Objects: 2, Edits: 2, Faults: 1, Losses: 1}},
		{"losses-again", "the same twice, one capture", bounds{Keys: 1, Captures: 1, Objects: 2, Edits: 3, Faults: 0, Losses: 2}},
		{"losses-taints", "the same with a taint", bounds{Keys: 1, Taints: taint, Captures: 1, Objects: 3, Edits: 2, Faults: 1, Losses: 1}},
		{"machines", "machines of one name, quarantine, and operators who accept a side", bounds{Keys: 1, Captures: 2, Objects: 2, Edits: 2, Faults: 1, Machines: policy.Quarantine}},
		{"machines-objects", "the same with three objects", bounds{Keys: 1, Taints: taint, Captures: 1, Objects: 3, Edits: 2, Faults: 1, Machines: policy.Quarantine}},
		{"earlier", "machines of one name, each with a record of its own", bounds{Keys: 1, Captures: 2, Objects: 2, Edits: 2, Faults: 1, Machines: policy.Forget}},
		{"earlier-late", "the same with three objects, of which the last states come late", bounds{Keys: 1, Captures: 2, Objects: 3, Edits: 2, Faults: 2, Machines: policy.Forget}},
		{"earlier-objects", "the same with four objects, so that machines return", bounds{Keys: 1, Captures: 1, Objects: 4, Edits: 2, Faults: 1, Machines: policy.Forget}},
		{"rules", "a taint that is derived from a label, and clients who set it too", bounds{Keys: 2, Taints: taint, Captures: 1, Objects: 2, Edits: 3, Faults: 1, Rule: true}},
	}
}
