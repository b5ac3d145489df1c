package capture_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// Field managers.
const (
	kubelet      = "kubelet"
	kubectlLabel = "kubectl-label"
	kubectlTaint = "kubectl-taint"
	kubectlApply = "kubectl"
	creator      = "kubectl-create"

	ancientChanges = "ancient-changes"
)

func (w *cluster) clientSteps() []step {
	return []step{
		{10, "label", func() { w.label(kubectlLabel) }},
		{2, "apply", func() { w.label(kubectlApply) }},
		{2, "apply without", w.applyWithout},
		{7, "unlabel", w.unlabel},
		{3, "write taints", w.writeStaleTaints},
		{6, "delete", w.deleteNode},
		{3, "finalizer", w.finish},
		{14, "register", func() { w.register(w.anyName()) }},
		{1, "deny", w.deny},
		{1, "remove the annotation", w.unstamp},
		{2, "lose the managers", w.loseManagers},
		{1, "change the policy", w.changePolicy},
		{1, "lose a record", w.loseRecord},
	}
}

// anyNode returns a Node that exists, or nil.
func (w *cluster) anyNode() *node { return w.nodes[w.anyName()] }

func (w *cluster) anyKey() int { return w.scenario.keys[w.rng.IntN(len(w.scenario.keys))] }

func (w *cluster) anyValue() string { return strconv.Itoa(1 + w.rng.IntN(3)) }

func (w *cluster) label(manager string) {
	n, k, value := w.anyNode(), w.anyKey(), w.anyValue()
	if n == nil {
		return
	}
	next := n.clone()
	setItem(next, k, &value, manager)
	if n.items()[keys[k]] == value {
		if isTaintKey(k) || manager != kubectlApply || slices.Contains(n.owners[keys[k]], manager) {
			return // "not labeled"
		}
		next.owners[keys[k]] = append(slices.Clone(n.owners[keys[k]]), manager)
	}
	w.commit(next, k)
	w.say("client: %s %s=%s on %s", manager, keys[k], value, next.describe())
}

// applyWithout is a server-side apply that does not have a label any more. The label stays as long as it has another owner.
func (w *cluster) applyWithout() {
	n, k := w.anyNode(), w.anyKey()
	if n == nil || !slices.Contains(n.owners[keys[k]], kubectlApply) {
		return
	}
	next, key := n.clone(), keys[k]
	if left := slices.DeleteFunc(slices.Clone(n.owners[key]), func(manager string) bool { return manager == kubectlApply }); len(left) > 0 {
		next.owners[key] = left
		w.commit(next)
	} else {
		setItem(next, k, nil, kubectlApply)
		w.commit(next, k)
	}
	w.say("client: %s without %s on %s", kubectlApply, key, next.describe())
}

func (w *cluster) unlabel() {
	n, k := w.anyNode(), w.anyKey()
	if n == nil {
		return
	}
	if _, shown := n.items()[keys[k]]; !shown || isTaintKey(k) && n.gateIsBack && !slices.Contains(n.read, keys[k]) { // design 5.8, limit 12
		return
	}
	next := n.clone()
	setItem(next, k, nil, kubectlLabel)
	w.commit(next, k)
	w.say("client: kubectl-label %s- on %s", keys[k], next.describe())
}

// writeStaleTaints is a client that sends the whole list of taints, as it read it just before capture removed the gate.
func (w *cluster) writeStaleTaints() {
	n := w.anyNode()
	if n == nil || gate.Present(n.taints) || !strings.Contains(n.annotations[stampAnnotation], `"opened"`) { // the stamp proves it
		return
	}
	opened := n.version
	var read *node
	for read == nil && opened > 0 {
		opened--
		if prev := w.byVersion[opened]; prev != nil && prev.uid == n.uid && gate.Present(prev.taints) {
			read = prev
		}
	}
	if read == nil {
		return
	}
	next := n.clone()
	next.taints, next.taintsBy = slices.DeleteFunc(slices.Clone(read.taints), func(taint corev1.Taint) bool {
		return taintKey(taint) == ruleTaint && !slices.Contains(n.taints, taint)
	}), kubectlTaint
	r, _ := w.recordOf(n.name)
	var decided []int
	for k, key := range keys {
		value, writes := next.items()[key]
		switch {
		case !isTaintKey(k):
		case writes && n.items()[key] != value:
			decided = append(decided, k) // nobody can tell it from a client's
		case !writes && (remembered(r)[key] != n.items()[key] || !w.policies[len(w.policies)-1].selects[k] || w.removedSince(read, k)): // design 5.8, limit 12
			return
		}
	}
	next.gateIsBack, next.read = true, slices.Collect(maps.Keys(itemsOf(nil, read.taints)))
	w.commit(next, decided...)
	w.say("client: writes the taints of version %d on %s", opened, next.describe())
}

// removedSince reports whether a client has removed a key since that state of the object.
func (w *cluster) removedSince(n *node, k int) bool {
	return slices.ContainsFunc(w.logs[n.name].states[n.pos:], func(p *formerNode) bool { return p.edited[k] && p.items[k].Value == oracle.NoValue })
}

// loseManagers is the API server that has merged the managers of all labels into one. What it shows then is not enough to tell that a client
// set what the Node has by nodekeep, or by its kubelet, as well: design 5.8, limit 13.
func (w *cluster) loseManagers() {
	n := w.anyNode()
	if n == nil || !w.chance(w.scenario.merges) {
		return
	}
	for k, key := range keys {
		i := n.former.items[k]
		ours, client := slices.Contains(n.owners[key], ourManager) || len(n.managersOf(key)) > 0 && i.Owner == oracle.NoOwner, i.Owner == oracle.Client
		kubelets := len(n.owners[key]) > 0 && !client && !ours
		if kubelets && i.Brought != i.Value || ours && i.Given != i.Value || client && (i.Value == i.Brought || i.Value == i.Given) {
			return
		}
	}
	next := n.clone()
	for key, managers := range n.owners {
		if managers[0] != ancientChanges {
			next.owners[key], next.merged[key] = []string{ancientChanges}, managers
		}
	}
	w.commit(next)
	w.say("cluster: loses the managers of %s", next.describe())
}

func (w *cluster) deleteNode() {
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
	if !w.calm && w.chance(w.scenario.vetoes) {
		w.say("cluster: another webhook denies the deletion of %s", n.describe())
		return
	}
	if w.delete(n); w.nodes[n.name] == nil {
		w.say("client: deletes %s", n.describe())
	} else {
		w.say("client: deletes %s, which has a finalizer", n.describe())
	}
}

func (w *cluster) finish() {
	if n := w.anyNode(); n != nil && n.deleting {
		w.remove(n)
		w.say("cluster: removes the finalizer of %s", n.describe())
	}
}

// deny has the API server refuse a label from capture, or none.
func (w *cluster) deny() {
	switch k := w.anyKey(); {
	case w.denied != "":
		w.denied = ""
	case w.chance(w.scenario.denials):
		w.denied = keys[k]
	default:
		return
	}
	w.say("cluster: the API server refuses %q from capture", w.denied)
}

// loseRecord is a client that removes a record, or puts an older one in its place. Then what was observed is lost but for what the Node shows.
func (w *cluster) loseRecord() {
	name := w.anyName()
	prev, err := w.records.Get(name)
	if err != nil || !w.chance(w.scenario.losses) {
		return
	}
	log, older := w.logs[name], w.history[name][w.rng.IntN(len(w.history[name]))]
	if older.Version != "" && older.Version != prev.Version && w.chance(.5) {
		entry, err := w.records.Put(context.Background(), older.Record, prev.Version)
		if err != nil {
			panic(err)
		}
		w.history[name] = append(w.history[name], entry)
		log.restored = remembered(older.Record)
		w.unwrite(log, older.Record)
		w.say("client: puts back %s", describeRecord(older.Record))
	} else {
		if err := w.records.Delete(context.Background(), name, prev.Version); err != nil {
			panic(err)
		}
		w.history[name] = append(w.history[name], recordEntry{})
		w.say("client: removes the record of %s", name)
	}
	log.forgets, log.lost, log.forgotAt = true, true, len(log.states)
}

// unstamp is a client that removes the annotation. What nodekeep set and nobody owns looks like a client's decision from then on.
func (w *cluster) unstamp() {
	n := w.anyNode()
	if n == nil || n.annotations[stampAnnotation] == "" || n.gateIsBack || n.lostManagers() || !w.chance(w.scenario.unstamps) {
		return
	}
	next := n.clone()
	delete(next.annotations, stampAnnotation)
	w.commit(next, w.forgetStamp(next)...)
	next.former.bare = true
	w.say("client: removes the annotation of %s", next.describe())
}

// forgetStamp returns the truth about a Node whose stamp is replaced or removed: which keys look decided now.
func (w *cluster) forgetStamp(next *node) (looksDecided []int) {
	for k := range next.next.items {
		i := &next.next.items[k]
		if i.Value != oracle.NoValue && !i.Decision(isTaintKey(k)) && i.Owner != oracle.Kubelet {
			looksDecided = append(looksDecided, k)
		}
		i.Given, i.Start, i.Brought = oracle.NoValue, 0, oracle.NoValue
	}
	return looksDecided
}

func (w *cluster) changePolicy() {
	for _, n := range w.nodes {
		if n.gateIsBack { // design 5.8, limit 12: what is not selected while capture puts that right is not restored
			return
		}
	}
	if !w.scenario.policies {
		return
	}
	ignored := -1
	if w.rng.IntN(2) == 0 {
		ignored = w.anyKey()
	}
	prev := w.policies[len(w.policies)-1]
	w.policies = append(w.policies, newPolicy(w.scenario, &prev.policyFile, ignored, w.scenario.rules && w.rng.IntN(3) > 0))
	w.say("operator: the policy is now %q", w.policies[len(w.policies)-1].text)
}

// register is a kubelet, or once in a while another client, that creates a Node. It changes nothing on a Node that exists.
func (w *cluster) register(name string) {
	if w.nodes[name] != nil {
		return
	}
	log := w.logs[name]
	log.objects++
	w.processes++
	n := &node{
		created: w.now(),
		name:    name, uid: newUID(w.processes), machine: "one", finalizer: w.chance(w.scenario.finalizers),
		labels: map[string]string{corev1.LabelHostname: name}, owners: map[string][]string{corev1.LabelHostname: {kubelet}},
	}
	n.next.object = log.objects
	if w.chance(w.scenario.otherMachines) {
		n.machine = "another"
	}
	by := kubelet
	if w.chance(w.scenario.otherCreators) {
		by = creator
	}
	var decided []int // if the values are still there in the end
	for _, k := range w.scenario.keys {
		value := w.anyValue()
		switch {
		case isTaintKey(k) && w.chance(w.scenario.ownTaints):
			n.taints = append(n.taints, taintOf(keys[k], value))
		case !isTaintKey(k) && (by != kubelet || !isProtected(k)) && w.chance(w.scenario.ownLabels):
			setLabel(n, keys[k], &value, by)
		}
	}
	if by == kubelet && w.chance(w.scenario.forges) {
		w.forgeCreation(n)
	}
	if by == kubelet && w.chance(w.scenario.kubeletGates) || w.scenario.gatePolicy {
		n.taints = append(n.taints, gate.Taint())
	}
	prev := w.chance(w.scenario.admission / 2) // another admission policy is called before the webhook, or after it
	next := !prev && w.chance(w.scenario.admission)
	if prev {
		decided = append(decided, w.admit(n))
	}
	reviewer := "no webhook"
	remembered, knew := n.items(), map[string]string{}
	if i := w.rng.IntN(len(w.webhooks)); !w.webhooks[i].stopped {
		reviewer = "webhook " + strconv.Itoa(i)
		knew = w.review(w.webhooks[i], n, by == kubelet)
	}
	if next {
		decided = append(decided, w.admit(n))
	}
	w.committed(n, by, remembered, knew, decided)
	w.say("%s: registers %s through %s", by, n.describe(), reviewer)
}

// committed stores a Node that was created, with the truth about each key.
func (w *cluster) committed(n *node, by string, prev, knew map[string]string, decided []int) {
	var edited []int
	shown := n.items()
	for k, key := range keys {
		i := &n.next.items[k]
		_, known := knew[key]
		if _, restored := n.next.givenInReview[key]; restored {
			i.Given = valueOf(n.next.givenInReview[key])
		} else if known {
			i.Brought = valueOf(prev[key])
		} else { // what is a kubelet's own
			i.Brought = valueOf(brought(n.annotations[stampAnnotation])[key])
		}
		switch {
		case shown[key] == noValue:
		case slices.Contains(decided, k) && valueOf(shown[key]) != i.Given, by != kubelet && n.ownedByAClient(key):
			edited = append(edited, k)
		case isTaintKey(k) && prev[key] != noValue && i.Brought == oracle.NoValue && i.Given == oracle.NoValue:
			edited = append(edited, k) // nobody can tell it from a client's
		}
	}
	w.commit(n, edited...)
}

// admit is another admission policy that sets a key to a value of its own.
func (w *cluster) admit(n *node) (k int) {
	k = w.anyKey()
	for isProtected(k) { // the API server judges it as the kubelet's
		k = (k + 1) % keyCount
	}
	value := w.anyValue()
	setItem(n, k, &value, "")
	if !isTaintKey(k) {
		n.labels[keys[k]] = value
		delete(n.owners, keys[k])
	}
	w.say("cluster: another admission policy sets %s=%s on %s", keys[k], value, n.name)
	return k
}
