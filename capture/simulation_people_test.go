//go:build oldcore

package capture

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
)

// Who changes labels.
const (
	kubelet      = "kubelet"
	kubectlLabel = "kubectl-label"
	kubectlApply = "kubectl"
)

// What people set; a kubelet may set the first two labels.
var simKeys = []string{"disk", "team", worker, "maintenance:NoExecute", "node-role.kubernetes.io/gpu"}

// The rule of the stories that have one: the taint follows the label team.
const (
	ruleItem = "team:NoSchedule"
	ruleText = "{selector: team, taint: 'team={value}:NoSchedule'}"
)

func (w *world) peopleSteps() []step {
	return []step{
		{10, "label", func() { w.label(kubectlLabel) }},
		{2, "apply", func() { w.label(kubectlApply) }},
		{7, "unlabel", w.unlabel},
		{6, "delete", w.deleteNode},
		{3, "finalizer", w.finish},
		{14, "register", func() { w.register(w.anyName()) }},
		{2, "heartbeat", w.heartbeat},
		{1, "deny", w.deny},
	}
}

// anyNode is a Node that exists, or nil.
func (w *world) anyNode() *simNode { return w.nodes[w.anyName()] }

func (w *world) anyKey() string { return simKeys[w.rng.IntN(w.story.keys)] }

func (w *world) anyValue() string { return strconv.Itoa(1 + w.rng.IntN(3)) }

func (w *world) label(manager string) {
	n, key, value := w.anyNode(), w.anyKey(), w.anyValue()
	if n == nil {
		return
	}
	next := n.clone()
	setItem(next, key, &value, manager)
	if n.items()[key] == value {
		if policy.IsTaint(key) || manager != kubectlApply || slices.Contains(n.owners[key], manager) {
			return // "not labeled"
		}
		next.owners[key] = append(slices.Clone(n.owners[key]), manager)
	}
	open := w.looksRestored(n, key, value)
	w.commit(next)
	w.say("person:  %s %s=%s on %s", manager, key, value, brief(next))
	w.model.set(next, key, value, open)
}

// looksRestored reports whether a taint that a person sets cannot be told from what admission had put there: of the
// same value, on an object that no record is of yet.
func (w *world) looksRestored(n *simNode, key, value string) bool {
	if record, found := w.recordOf(n.name); !policy.IsTaint(key) || found && record.UID == n.uid {
		return false
	}
	stamp, _ := policy.ParseStamp(n.stamp)
	given, listed := stamp.TaintValue(key)
	return listed && given == value
}

func (w *world) unlabel() {
	n, key := w.anyNode(), w.anyKey()
	if n == nil {
		return
	}
	if _, shown := n.items()[key]; !shown {
		return
	}
	next := n.clone()
	setItem(next, key, nil, kubectlLabel)
	w.commit(next)
	w.say("person:  kubectl-label %s- on %s", key, brief(next))
	mayComeBack := w.mayComeBack(n, key)
	if w.model.unset(next, key, mayComeBack); mayComeBack {
		w.model.open[n.uid] = append(w.model.open[n.uid], key)
	}
}

// mayComeBack reports whether a removal is one that the design does not promise to tell from a loss: of a label that the
// record knows as the kubelet's, or on an object that no record was ever of, unless the stamp proves that the label was there.
func (w *world) mayComeBack(n *simNode, key string) bool {
	if record, found := w.recordOf(n.name); found && record.UID == n.uid {
		_, kept := record.Shown()[key]
		_, withheld := record.Withheld.Items[key]
		return withheld && !kept
	}
	stamp, _ := policy.ParseStamp(n.stamp)
	return !stamp.Lists(key) || (policy.IsTaint(key) || !policy.AllowedForKubelet(key)) && !w.story.guards
}

func (w *world) deleteNode() {
	n := w.anyNode()
	if w.reviewing { // one deletion at a time
		return
	}
	w.reviewing = true
	defer func() { w.reviewing = false }()
	for range 3 {
		if n == nil {
			return
		}
		w.reviewDeletion(n)
		if w.nodes[n.name] == n {
			break
		}
		n = w.nodes[n.name] // it changed meanwhile: the API server starts again
	}
	if n == nil || w.nodes[n.name] != n {
		return
	}
	if !w.calm && w.chance(w.story.vetoes) {
		w.say("someone: vetoes the deletion of %s", brief(n))
		return
	}
	if w.delete(n); w.nodes[n.name] == nil {
		w.say("person:  delete %s", brief(n))
	} else {
		w.say("person:  delete %s, which its finalizer keeps", brief(n))
	}
}

func (w *world) finish() {
	if n := w.anyNode(); n != nil && n.deleting {
		w.remove(n)
		w.say("someone: takes the finalizer off %s", brief(n))
	}
}

func (w *world) heartbeat() {
	if n := w.anyNode(); n != nil {
		w.commit(n.clone())
	}
}

// deny has the API server refuse a label from capture, or none.
func (w *world) deny() {
	switch key := w.anyKey(); {
	case w.denied != "":
		w.denied = ""
	case w.chance(w.story.denials):
		w.denied = key
	}
	w.say("someone: the API server refuses %q from capture", w.denied)
}

// register is a kubelet, or once in a while a person, that creates a Node. Of a Node that exists nothing changes.
func (w *world) register(name string) {
	if w.nodes[name] != nil {
		return
	}
	w.uids++
	n := &simNode{
		name: name, uid: types.UID(strconv.Itoa(w.uids)), machine: "one", finalizer: w.chance(w.story.finalizers),
		labels: map[string]string{"kubernetes.io/hostname": name}, owners: map[string][]string{"kubernetes.io/hostname": {kubelet}},
	}
	if w.chance(w.story.otherMachines) {
		n.machine = "another"
	}
	by, occasion := kubelet, policy.CreateByKubelet
	if w.chance(w.story.otherCreators) {
		by, occasion = "kubectl-create", policy.CreateByOther
	}
	for _, key := range simKeys[:w.story.keys] {
		if w.chance(w.story.ownLabels) && !policy.IsTaint(key) && (by != kubelet || policy.AllowedForKubelet(key)) {
			value := w.anyValue()
			setLabel(n, key, &value, by)
		}
	}
	if by == kubelet && w.chance(w.story.kubeletGates) {
		n.taints = append(n.taints, gate.Taint())
	}
	if w.story.gatePolicy && !gate.On(n.taints) {
		n.taints = append(n.taints, gate.Taint())
	}
	reviewer := "no webhook"
	if i := w.rng.IntN(len(w.webhooks)); !w.webhooks[i].down {
		reviewer = "webhook " + strconv.Itoa(i)
		w.review(w.webhooks[i], n, occasion)
	}
	w.commit(n)
	w.say("%s: registers %s through %s", by, brief(n), reviewer)
	for _, key := range simKeys {
		if slices.Contains(n.owners[key], "kubectl-create") {
			w.model.set(n, key, n.labels[key], false)
		}
	}
}
