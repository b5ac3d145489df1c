package capture_test

import (
	"maps"
	"slices"
	"strings"

	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// What kubelets do to their own Nodes, as far as the API server lets them: they may not set protected labels, change taints on a
// Node that exists, or, while the guard policies are in force, write annotations of nodekeep.

func (w *cluster) kubeletSteps() []step {
	return []step{
		{4, "heartbeat", w.heartbeat},
		{2, "kubelet sets a label", w.setOwnLabel},
		{2, "kubelet forges", w.forge},
	}
}

func (w *cluster) heartbeat() {
	if n := w.anyNode(); n != nil {
		w.commit(n.clone())
	}
}

// setOwnLabel is a kubelet that restarts with a label in its configuration.
func (w *cluster) setOwnLabel() {
	n, k, value := w.anyNode(), w.anyKey(), w.anyValue()
	if n == nil || isTaintKey(k) || isProtected(k) || n.labels[keys[k]] == value || !w.chance(w.scenario.ownLabels) {
		return
	}
	next := n.clone()
	setItem(next, k, &value, kubelet)
	w.commit(next)
	w.say("kubelet: sets %s=%s on %s", keys[k], value, next.describe())
}

// forge is a kubelet that lies about its Node.
func (w *cluster) forge() {
	n := w.anyNode()
	if n == nil || n.gateIsBack || n.lostManagers() || !w.chance(w.scenario.forges) {
		return
	}
	k, value := w.anyKey(), w.anyValue()
	ordinary := !isTaintKey(k) && !isProtected(k)
	next := n.clone()
	if next.annotations == nil {
		next.annotations = map[string]string{}
	}
	switch lie := w.rng.IntN(7); {
	case lie == 0 && ordinary: // it names itself like a client; nobody can tell the difference
		if n.labels[keys[k]] == value {
			return
		}
		setItem(next, k, &value, kubectlLabel)
		w.commit(next, k)
	case lie == 1 && ordinary && n.labels[keys[k]] != noValue: // it removes a label that it may set
		setItem(next, k, nil, kubelet)
		w.commit(next, k)
	case lie == 2:
		w.emptyManagedFields(n, next)
	case lie == 3 && !isTaintKey(k):
		next.annotations[claimAnnotations[w.rng.IntN(len(claimAnnotations))]] = keys[k]
		w.commit(next)
	case lie == 4 && len(n.annotations) > 0:
		for _, annotation := range claimAnnotations {
			delete(next.annotations, annotation)
		}
		w.commit(next, looksSet(n, next)...)
	case lie == 5 && !w.scenario.guards:
		w.commit(next, w.forgeStamp(next)...)
	case lie == 6 && !w.scenario.guards && w.scenario.rules:
		w.forgeOwnerList(next)
		w.commit(next)
	default:
		return
	}
	w.say("kubelet: forges %s", next.describe())
}

// emptyManagedFields removes what is known about owners. A label that the kubelet set looks like a client's from then on, or once no annotation claims it.
func (w *cluster) emptyManagedFields(n, next *node) {
	next.owners, next.taintsBy, next.wrote = map[string][]string{}, "", nil
	w.commit(next, looksSet(n, next)...)
}

// looksSet returns the keys that look decided on next and did not on n, although nobody is known to have set them.
func looksSet(n, next *node) (keysSet []int) {
	for k := range keys {
		prev := n.former.items[k]
		current := prev
		current.Owner = next.ownerOf(k)
		setBack := prev.Owner == oracle.Kubelet && current.Value != oracle.NoValue && current.Value == current.Given
		if current.Owner == oracle.NoOwner && (!prev.Decision(isTaintKey(k)) && current.Decision(isTaintKey(k)) || setBack) {
			keysSet = append(keysSet, k)
		}
	}
	return keysSet
}

// forgeStamp writes the annotation that only nodekeep should write. What nodekeep set and it does not list looks decided from then on.
func (w *cluster) forgeStamp(next *node) (looksDecided []int) {
	items := map[string]string{}
	for _, k := range w.scenario.keys {
		i := &next.next.items[k]
		shown := next.items()[keys[k]]
		if shown != noValue && i.Owner == oracle.NoOwner && !i.Decision(isTaintKey(k)) {
			looksDecided = append(looksDecided, k)
		}
		if listed, _ := i.Listed(); listed != oracle.NoValue {
			i.Forged = true // it is not listed any more, or otherwise
		}
		i.Given, i.Start, i.Brought = oracle.NoValue, 0, oracle.NoValue
		if w.chance(.6) {
			items[keys[k]], i.Forged = w.anyValue(), true
			if shown != noValue && w.chance(.5) {
				items[keys[k]] = shown
			}
		}
	}
	next.annotations[stampAnnotation] = forgedStamp(items)
	return looksDecided
}

// forgeOwnerList writes or removes the list of taints that rules made.
func (w *cluster) forgeOwnerList(next *node) {
	w.logs[next.name].forgedRules = true
	var listed []string
	for _, taint := range next.taints {
		if w.chance(.5) {
			listed = append(listed, taint.ToString())
			if k := slices.Index(keys[:], taintKey(taint)); k >= 0 {
				next.next.items[k].Forged = true
			}
		}
	}
	next.annotations[ownerAnnotation] = strings.Join(listed, ",")
}

// forgeCreation is the same in a CREATE. The guard policies strip the annotations before any webhook sees them.
func (w *cluster) forgeCreation(n *node) {
	n.annotations = map[string]string{}
	k := w.anyKey()
	if !isTaintKey(k) && w.chance(.3) {
		n.annotations[claimAnnotations[w.rng.IntN(len(claimAnnotations))]] = keys[k]
	}
	if !w.scenario.guards {
		prev := maps.Clone(n.annotations)
		if w.forgeStamp(n); w.chance(.3) {
			delete(n.annotations, stampAnnotation)
			n.annotations = prev
		}
		if w.scenario.rules && w.chance(.3) {
			w.forgeOwnerList(n)
		}
	}
	w.say("kubelet: is about to register %s with %v", n.name, n.annotations)
}
