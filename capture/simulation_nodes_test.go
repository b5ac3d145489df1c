package capture_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// epoch is when each scenario begins.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// node is one state of a Node as the API server of the simulation holds it. It is never changed, only replaced.
type node struct {
	name        string
	uid         types.UID
	version     int
	labels      map[string]string
	owners      map[string][]string // of labels
	merged      map[string][]string // the owners of labels that the API server has lost
	annotations map[string]string
	taints      []corev1.Taint
	taintsBy    string         // who wrote the list of taints last; empty: nobody owns it
	wrote       map[string]int // the version with which each manager last changed something
	machine     string
	created     time.Time
	finalizer   bool // something delays its deletion
	deleting    bool
	gone        bool // this is what the API server deleted
	gateIsBack  bool // a client has written the gate again, with the taints that it had read, and capture has not removed it
	read        []string

	pos    int // index in the log of its name
	former *formerNode
	next   formerNode // becomes the past of the next state
}

func (n *node) items() map[string]string { return itemsOf(n.labels, n.taints) }

func (n *node) clone() *node {
	c := *n
	c.labels, c.owners, c.taints, c.annotations = maps.Clone(n.labels), maps.Clone(n.owners), slices.Clone(n.taints), maps.Clone(n.annotations)
	c.wrote, c.merged = maps.Clone(n.wrote), maps.Clone(n.merged)
	if c.merged == nil {
		c.merged = map[string][]string{}
	}
	if n.former != nil {
		c.next = *n.former
	}
	c.next.bare, c.next.edited = false, [keyCount]bool{}
	return &c
}

// Annotations by which other components claim labels. In the first one, a name without a prefix is that of a label of another domain.
const featureAnnotation = "nfd.node.kubernetes.io/feature-labels"

var claimAnnotations = []string{featureAnnotation, "cluster.x-k8s.io/labels-from-machine"}

func (n *node) claims(key string) bool {
	for _, annotation := range claimAnnotations {
		for claimed := range strings.SplitSeq(n.annotations[annotation], ",") {
			if claimed == key && (annotation != featureAnnotation || strings.Contains(key, "/")) {
				return true
			}
		}
	}
	return false
}

// managersOf returns who manages a label, be it lost or not.
func (n *node) managersOf(key string) (managers []string) {
	for _, manager := range n.owners[key] {
		if manager == ancientChanges {
			managers = append(managers, n.merged[key]...)
		} else {
			managers = append(managers, manager)
		}
	}
	return managers
}

// lostManagers reports whether the API server shows of some label only that it has lost who set it.
func (n *node) lostManagers() bool {
	for _, managers := range n.owners {
		if slices.Contains(managers, ancientChanges) {
			return true
		}
	}
	return false
}

// deciders returns the managers of a label, but those that nodekeep restored with the value that it has.
func (n *node) deciders(key string) []string {
	k := slices.Index(keys[:], key)
	given := k >= 0 && n.next.items[k].Given != oracle.NoValue && n.next.items[k].Given == valueOf(n.labels[key])
	return slices.DeleteFunc(n.managersOf(key), func(manager string) bool {
		return manager == ourManager || given && slices.Contains(givenOwners(n.annotations[stampAnnotation])[key], manager)
	})
}

// ownerOf returns whose a key is, as far as anybody can tell.
func (n *node) ownerOf(k int) oracle.Owner {
	key := keys[k]
	managers := n.deciders(key)
	switch {
	case isTaintKey(k):
		return oracle.NoOwner
	case n.claims(key) && !isProtected(k):
		return oracle.Kubelet
	case len(managers) == 0:
		return oracle.NoOwner
	case !slices.ContainsFunc(managers, func(manager string) bool { return manager != kubelet }):
		return oracle.Kubelet
	default:
		return oracle.Client
	}
}

// ownedByAClient reports whether a client set the label.
func (n *node) ownedByAClient(key string) bool {
	return slices.ContainsFunc(n.deciders(key), func(manager string) bool { return manager != kubelet })
}

// object returns the Node as it goes over the wire.
func (n *node) object() *corev1.Node {
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: n.name, UID: n.uid, ResourceVersion: strconv.Itoa(n.version), Labels: maps.Clone(n.labels), CreationTimestamp: metav1.Time{Time: n.created},
		Annotations: maps.Clone(n.annotations),
	}, Spec: corev1.NodeSpec{Taints: slices.Clone(n.taints)}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: n.machine}}}
	if n.deleting {
		object.DeletionTimestamp = &metav1.Time{Time: epoch.Add(-time.Hour)}
	}
	type fields struct {
		Metadata struct {
			Labels map[string]struct{} `json:"f:labels"`
		} `json:"f:metadata"`
		Spec map[string]struct{} `json:"f:spec"`
	}
	owned := map[string]*fields{}
	fn := func(manager string) *fields {
		if owned[manager] == nil {
			owned[manager] = &fields{Spec: map[string]struct{}{}}
			owned[manager].Metadata.Labels = map[string]struct{}{".": {}}
		}
		return owned[manager]
	}
	for key, managers := range n.owners {
		for _, manager := range managers {
			fn(manager).Metadata.Labels["f:"+key] = struct{}{}
		}
	}
	if n.taintsBy != "" && len(n.taints) > 0 {
		fn(n.taintsBy).Spec["f:taints"] = struct{}{}
	}
	for _, manager := range slices.Sorted(maps.Keys(owned)) {
		raw, err := json.Marshal(owned[manager])
		if err != nil {
			panic(err)
		}
		stamp := metav1.NewTime(timeOf(n.wrote[manager]))
		object.ManagedFields = append(object.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: operationOf(manager), APIVersion: "v1", Time: &stamp, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw)),
		})
	}
	return object
}

func operationOf(manager string) metav1.ManagedFieldsOperationType {
	if manager == kubectlApply {
		return metav1.ManagedFieldsOperationApply
	}
	return metav1.ManagedFieldsOperationUpdate
}

// setOwners gives labels the owners that a list of managedFields says.
func (n *node) setOwners(entries []metav1.ManagedFieldsEntry) {
	n.owners = map[string][]string{}
	for _, entry := range entries {
		var fields struct {
			Metadata struct {
				Labels map[string]struct{} `json:"f:labels"`
			} `json:"f:metadata"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil || entry.Operation != operationOf(entry.Manager) || entry.APIVersion != "v1" {
			panic(fmt.Sprint("an entry of managedFields that the API server would not keep: ", entry, err))
		}
		for field := range fields.Metadata.Labels {
			key, ok := strings.CutPrefix(field, "f:")
			if _, shown := n.labels[key]; !ok || !shown {
				continue
			}
			n.owners[key] = append(n.owners[key], entry.Manager)
		}
	}
}

// timeOf returns when the API server says that a version was written.
func timeOf(version int) time.Time { return epoch.Add(time.Duration(version) * time.Second) }

// formerNode is one state of a Node object as the oracle sees it.
type formerNode struct {
	object int  // 1, 2, ... in the order of registration
	bare   bool // a client removed the annotation by this change
	items  [keyCount]oracle.Item
	edited [keyCount]bool // a client, or another admission policy, decided on the key by this change

	givenInReview map[string]string // what the webhook put into the CREATE
}

// noValue is the value of a key that is not there.
const noValue = ""

// valueOf returns a value of [cluster.anyValue], a digit, as the oracle has it.
func valueOf(text string) oracle.Value {
	if text == noValue {
		return oracle.NoValue
	}
	return oracle.Value(text[0] - '0')
}

// nodeLog is all states of the Nodes of one name, and what was observed of each.
type nodeLog struct {
	objects  int
	states   []*formerNode
	observed []observation // of each state
	newest   int           // object that was observed
	sequence int           // of observations
	tooFar   bool

	settledAt [keyCount]int // index of the first state that matters
	settled   [keyCount]oracle.Value
	forgets   bool              // the record may have been collected
	lost      bool              // the record was lost or put back older
	forgotAt  int               // index of the first state since then
	restored  map[string]string // what an older record remembered that was put back

	history    []change                  // the history of the record as it was written last
	remembered map[int]map[string]string // what the record remembered after an entry of its history

	forgedRules bool // a kubelet wrote the list of taints that rules made
}

// push appends a state and fills in what the oracle wants to know of it.
func (w *cluster) push(n *node, edited ...int) {
	w.version++
	n.version = w.version
	log := w.logs[n.name]
	p := n.next
	shown := n.items()
	for k := range p.items {
		i := &p.items[k]
		i.Value, i.Owner, i.Claimed = valueOf(shown[keys[k]]), n.ownerOf(k), n.claims(keys[k])
	}
	for _, k := range edited {
		p.edited[k] = true
	}
	n.former, n.pos = &p, len(log.states)
	log.states, log.observed = append(log.states, &p), append(log.observed, observation{})
	w.byVersion[n.version] = n
	w.events = append(w.events, n)
}

// commit stores a new state of a Node. The edited keys are those that a client decided on.
func (w *cluster) commit(n *node, edited ...int) {
	w.noteWriters(w.nodes[n.name], n, w.version+1)
	w.nodes[n.name] = n
	w.push(n, edited...)
}

// remove deletes a Node; the event of that has a version of its own.
func (w *cluster) remove(n *node) {
	last := n.clone()
	last.gone = true
	delete(w.nodes, n.name)
	w.push(last)
}

// delete removes a Node, or marks it for its finalizer.
func (w *cluster) delete(n *node) {
	if !n.finalizer {
		w.remove(n)
		return
	}
	if !n.deleting {
		marked := n.clone()
		marked.deleting = true
		w.commit(marked)
	}
}

var nodesResource = schema.GroupResource{Resource: "nodes"}

// mergePatch is all that capture may send in a PATCH of a Node.
type mergePatch struct {
	Metadata struct {
		UID             types.UID          `json:"uid"`
		ResourceVersion string             `json:"resourceVersion"`
		Labels          map[string]*string `json:"labels"`
		Annotations     map[string]*string `json:"annotations"`

		ManagedFields []metav1.ManagedFieldsEntry `json:"managedFields"`
	} `json:"metadata"`
	Spec map[string]json.RawMessage `json:"spec"`
}

// patchNode applies a merge patch of capture's, with the preconditions of a real API server.
func (c *process) patchNode(name string, body []byte) (*node, error) {
	w := c.cluster
	var patch mergePatch
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&patch); err != nil {
		w.fail("capture sent a PATCH of other fields than its own: %v: %s", err, body)
	}
	n, found := w.nodes[name]
	switch {
	case !found:
		return nil, apierrors.NewNotFound(nodesResource, name)
	case patch.Metadata.UID != n.uid:
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, name, nil)
	case patch.Metadata.ResourceVersion != strconv.Itoa(n.version):
		return nil, apierrors.NewConflict(nodesResource, name, nil)
	}
	for key, value := range patch.Metadata.Labels {
		if value != nil && w.denied == key {
			w.refusals++
			return nil, apierrors.NewForbidden(nodesResource, name, nil)
		}
	}
	next := n.clone()
	for _, key := range slices.Sorted(maps.Keys(patch.Metadata.Labels)) {
		value := patch.Metadata.Labels[key]
		if current, shown := n.labels[key]; shown && n.ownedByAClient(key) && (value == nil || *value != current) {
			w.fail("capture changes label %s of %s, which a client owns", key, n.name)
		}
		setLabel(next, key, value, ourManager)
	}
	if patch.Metadata.ManagedFields != nil {
		changed := next.owners
		next.owners = maps.Clone(n.owners)
		next.setOwners(patch.Metadata.ManagedFields)
		for key := range patch.Metadata.Labels { // booked under the manager of the PATCH
			next.owners[key] = changed[key]
		}
		for key, managers := range n.owners {
			if slices.ContainsFunc(managers, func(m string) bool { return m != ourManager && !slices.Contains(next.owners[key], m) }) {
				w.fail("capture takes label %s of %s from %v", key, n.name, managers)
			}
		}
	}
	for key, value := range patch.Metadata.Annotations {
		if key != ownerAnnotation && key != stampAnnotation {
			w.fail("capture changes annotation %s", key)
		}
		if next.annotations == nil {
			next.annotations = map[string]string{}
		}
		if value == nil {
			delete(next.annotations, key)
		} else {
			next.annotations[key] = *value
		}
	}
	for field, raw := range patch.Spec {
		next.taints = nil
		if err := json.Unmarshal(raw, &next.taints); err != nil || field != "taints" {
			w.fail("capture changes %s of the spec: %v", field, err)
		}
	}
	next.gateIsBack = n.gateIsBack && gate.Present(next.taints)
	if !slices.Equal(n.taints, next.taints) {
		next.taintsBy = ourManager
	}
	w.checkTaints(n, next)
	if maps.EqualFunc(n.owners, next.owners, slices.Equal) && maps.Equal(n.labels, next.labels) && maps.Equal(n.annotations, next.annotations) && slices.Equal(n.taints, next.taints) {
		if w.refusals == 0 {
			w.fail("capture sent a PATCH that changes nothing: %s", body)
		}
		return n, nil
	}
	prev, updated := n.items(), next.items()
	for k, key := range keys {
		if i := &next.next.items[k]; updated[key] != prev[key] {
			i.Given, i.Start, i.Brought = valueOf(updated[key]), n.pos+1, oracle.NoValue
		} else if current, lists := brought(next.annotations[stampAnnotation])[key]; lists && i.Given == oracle.NoValue {
			i.Brought = valueOf(current)
		}
	}
	c.checkLift(n, next)
	w.checkDecided(n, next)
	w.commit(next)
	w.writes++
	return next, nil
}

// checkDecided allows capture to take nothing off a Node and to revert nothing there but to what a client decided once, whatever records say
// and have lost. Without guard policies, a kubelet may have forged what shows that.
func (w *cluster) checkDecided(prev, next *node) {
	old, current := prev.items(), next.items()
	log := w.logs[prev.name]
	for _, k := range w.scenario.keys {
		key := keys[k]
		if value, shown := current[key]; old[key] == "" || shown && value == old[key] || !w.scenario.guards || key == ruleTaint && w.scenario.rules {
			continue
		}
		if !slices.ContainsFunc(log.states, func(p *formerNode) bool { return p.edited[k] && p.items[k].Value == valueOf(current[key]) }) {
			w.fail("capture changes %s of %s from %q to %q, which no client decided", key, next.name, old[key], current[key])
		}
	}
}

// checkTaints allows capture no taint but those of clients, of the rules, and the gate.
func (w *cluster) checkTaints(prev, next *node) {
	old, current := prev.items(), next.items()
	if len(old)-len(prev.labels) != len(prev.taints) || len(current)-len(next.labels) != len(next.taints) {
		w.fail("%s has two taints of one key and effect", next.name)
	}
	for item := range itemsOf(nil, slices.Concat(prev.taints, next.taints)) {
		if value, shown := current[item]; shown == (old[item] != "") && old[item] == value || gate.Matches(taintOf(item, "")) || item == ruleTaint && w.scenario.rules {
			continue
		}
		if !slices.Contains(keys[:], item) {
			w.fail("capture changed taint %s of %s", item, next.name)
		}
	}
}

// checkLift checks that a Node that loses the gate shows all that was recorded already when this reconcile began, and the taints that
// follow from its labels.
func (c *process) checkLift(prev, next *node) {
	if !gate.Present(prev.taints) || gate.Present(next.taints) {
		return
	}
	shown, live := next.items(), c.rememberedOf(next.name)
	for k, key := range keys {
		value, ok := c.rememberedAtStart[key]
		if _, found := shown[key]; found || !ok || live[key] != value || c.scenario.neverRestores(k) || !c.policy.selects[k] || c.editedOn(next, k) {
			continue
		}
		c.fail("capture lifts the gate of %s, which lacks the remembered %s", next.name, key)
	}
	for _, taint := range rulesTaints(c.policy.policyFile, next.labels) {
		if _, ok := shown[taintKey(taint)]; !ok {
			c.fail("capture lifts the gate of %s, which lacks the rule's taint %s", next.name, taint.ToString())
		}
	}
}

// editedOn reports whether a client decided on the key on this object, or a kubelet forged what is known of it.
func (w *cluster) editedOn(n *node, k int) bool {
	for _, p := range w.logs[n.name].states {
		if p.object == n.next.object && (p.edited[k] || p.items[k].Forged) {
			return true
		}
	}
	return false
}

// setItem is setLabel for taints too. Nobody owns a taint.
func setItem(n *node, k int, value *string, manager string) {
	if !isTaintKey(k) {
		setLabel(n, keys[k], value, manager)
		return
	}
	n.taintsBy = manager
	n.taints = slices.DeleteFunc(slices.Clone(n.taints), func(taint corev1.Taint) bool { return taintKey(taint) == keys[k] })
	if value != nil {
		n.taints = append(n.taints, taintOf(keys[k], *value))
	}
}

// setLabel changes a label as an Update by a manager does: who sets another value becomes the owner.
func setLabel(n *node, key string, value *string, manager string) {
	current, shown := n.labels[key]
	if n.labels == nil {
		n.labels, n.owners = map[string]string{}, map[string][]string{}
	}
	switch {
	case value == nil:
		delete(n.labels, key)
		delete(n.owners, key)
	case !shown || current != *value:
		n.labels[key] = *value
		n.owners[key] = []string{manager}
	}
}

// describe returns a Node in a few words.
func (n *node) describe() string {
	words := []string{fmt.Sprintf("%s uid %s@%d", n.name, n.uid, n.version)}
	for _, key := range slices.Sorted(maps.Keys(n.labels)) {
		if key != corev1.LabelHostname {
			words = append(words, fmt.Sprintf("%s=%s%v", key, n.labels[key], n.owners[key]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(n.annotations)) {
		words = append(words, key+": "+n.annotations[key])
	}
	for _, taint := range n.taints {
		words = append(words, taint.ToString())
	}
	if n.deleting {
		words = append(words, "deleting")
	}
	return "{" + strings.Join(words, " ") + "}"
}
