//go:build oldcore

package capture

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
)

// simNode is a Node as the API server of the simulation holds it. It is never changed, only replaced.
type simNode struct {
	name      string
	uid       types.UID
	version   int
	labels    map[string]string
	owners    map[string][]string
	stamp     string // the annotation; empty: none
	taints    []corev1.Taint
	taintsBy  string         // who wrote the list of taints last; empty: nobody owns it
	wrote     map[string]int // the version with which each manager last changed something
	machine   string
	finalizer bool // something holds it back when it is deleted
	deleting  bool
}

const gate = policy.DefaultGate

// items are the labels and taints that the Node shows.
func (n *simNode) items() map[string]string { return policy.Items(n.labels, n.taints) }

// nodeEvent is what the watch of Nodes tells.
type nodeEvent struct {
	gone bool
	node *simNode
}

func (n *simNode) clone() *simNode {
	c := *n
	c.labels, c.owners, c.taints = maps.Clone(n.labels), maps.Clone(n.owners), slices.Clone(n.taints)
	c.wrote = maps.Clone(n.wrote)
	return &c
}

// kubeletsOwn reports whether only the kubelet set the label.
func (n *simNode) kubeletsOwn(key string) bool {
	return len(n.owners[key]) > 0 && !slices.ContainsFunc(n.owners[key], func(m string) bool { return m != kubelet })
}

// peoplesOwn reports whether a person set the label.
func (n *simNode) peoplesOwn(key string) bool {
	return slices.ContainsFunc(n.owners[key], func(m string) bool { return m != kubelet && m != fieldManager })
}

// object is the Node as it goes over the wire.
func (n *simNode) object() *corev1.Node {
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: n.name, UID: n.uid, ResourceVersion: strconv.Itoa(n.version), Labels: maps.Clone(n.labels), CreationTimestamp: *nowTime,
	}, Spec: corev1.NodeSpec{Taints: slices.Clone(n.taints)}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: n.machine}}}
	if n.stamp != "" {
		object.Annotations = map[string]string{policy.StampAnnotation: n.stamp, "other": "annotation"}
	}
	if n.deleting {
		object.DeletionTimestamp = earlier
	}
	fields := map[string]map[string]any{}
	owns := func(manager, where, field string) {
		if fields[manager] == nil {
			fields[manager] = map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{".": struct{}{}}}, "f:spec": map[string]any{}}
		}
		if where == "f:spec" {
			fields[manager][where].(map[string]any)[field] = struct{}{}
			return
		}
		fields[manager][where].(map[string]any)["f:labels"].(map[string]any)[field] = struct{}{}
	}
	for key, managers := range n.owners {
		for _, manager := range managers {
			owns(manager, "f:metadata", "f:"+key)
		}
	}
	if n.taintsBy != "" && len(n.taints) > 0 {
		owns(n.taintsBy, "f:spec", "f:taints")
	}
	for _, manager := range slices.Sorted(maps.Keys(fields)) {
		raw, err := json.Marshal(fields[manager])
		if err != nil {
			panic(err)
		}
		at := metav1.NewTime(timeOf(n.wrote[manager]))
		object.ManagedFields = append(object.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, Time: &at, FieldsV1: metav1.NewFieldsV1(string(raw))})
	}
	return object
}

// timeOf is when the API server says that a version was written.
func timeOf(version int) time.Time { return nowTime.Add(time.Duration(version) * time.Second) }

// commit stores a new state of a Node and tells the watchers.
func (w *world) commit(n *simNode) {
	w.version++
	n.version = w.version
	w.noteWriters(w.nodes[n.name], n)
	w.nodes[n.name] = n
	w.log = append(w.log, nodeEvent{node: n})
}

// remove takes a Node out of the store; the event of that has a version of its own.
func (w *world) remove(n *simNode) {
	w.version++
	last := n.clone()
	last.version = w.version
	delete(w.nodes, n.name)
	w.log = append(w.log, nodeEvent{gone: true, node: last})
}

// delete removes a Node, or marks it for what holds it back.
func (w *world) delete(n *simNode) {
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

// mergePatch is all that capture may say in a patch of a Node.
type mergePatch struct {
	Metadata struct {
		UID             types.UID          `json:"uid"`
		ResourceVersion string             `json:"resourceVersion"`
		Labels          map[string]*string `json:"labels"`
		Annotations     map[string]*string `json:"annotations"`
	} `json:"metadata"`
	Spec map[string]json.RawMessage `json:"spec"`
}

// patchNode applies a merge patch of capture's, with the preconditions of a real API server.
func (w *world) patchNode(name string, body []byte) (*simNode, error) {
	var patch mergePatch
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&patch); err != nil {
		w.fail("capture sent a patch of other things than its own: %v: %s", err, body)
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
			w.refused[n.uid] = append(w.refused[n.uid], key)
			w.refusedOf[simLabel{name, key}] = true
			return nil, apierrors.NewForbidden(nodesResource, name, nil)
		}
	}
	next := n.clone()
	for _, key := range slices.Sorted(maps.Keys(patch.Metadata.Labels)) {
		w.judgePatch(n, key, patch.Metadata.Labels[key])
		setLabel(next, key, patch.Metadata.Labels[key], fieldManager)
	}
	for key, value := range patch.Metadata.Annotations {
		switch {
		case key == policy.TaintsAnnotation: // for people
		case key == policy.StampAnnotation && value != nil:
			next.stamp = *value
		default:
			w.fail("capture touched annotation %s", key)
		}
	}
	for field, raw := range patch.Spec {
		next.taints = nil
		if err := json.Unmarshal(raw, &next.taints); err != nil || field != "taints" {
			w.fail("capture touched %s of the spec: %v", field, err)
		}
	}
	if !slices.Equal(n.taints, next.taints) {
		next.taintsBy = fieldManager
	}
	w.judgeTaints(n, next)
	if maps.Equal(n.labels, next.labels) && n.stamp == next.stamp && slices.Equal(n.taints, next.taints) {
		if len(w.refused[n.uid]) == 0 {
			w.fail("capture sent a patch that changes nothing: %s", body)
		}
		return n, nil
	}
	w.judgeLift(n, next)
	w.commit(next)
	w.writes++
	return next, nil
}

// setItem is setLabel for taints too. Nobody owns a taint.
func setItem(n *simNode, item string, value *string, manager string) {
	if !policy.IsTaint(item) {
		setLabel(n, item, value, manager)
		return
	}
	n.taintsBy = manager
	n.taints = slices.DeleteFunc(slices.Clone(n.taints), func(taint corev1.Taint) bool { return policy.TaintItem(taint) == item })
	if value != nil {
		n.taints = append(n.taints, policy.TaintOf(item, *value))
	}
}

// setLabel changes a label as an Update by a manager does: who sets another value takes the label over.
func setLabel(n *simNode, key string, value *string, manager string) {
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

// judgePatch holds what capture changes against what people decided on this very object.
func (w *world) judgePatch(n *simNode, key string, value *string) {
	current, shown := n.items()[key]
	switch {
	case shown && n.peoplesOwn(key) && (value == nil || *value != current):
		w.fail("capture changes label %s of %s, which a person set", key, n.name)
	case !shown && value != nil && w.model.tookOff(n, key):
		w.fail("capture brings back label %s of %s, which a person took off this object", key, n.name)
	}
}

// judgeTaints holds what capture does to taints against what people decided, and allows it nothing but what is remembered,
// what the rules make, and the gate.
func (w *world) judgeTaints(before, after *simNode) {
	was, is := before.items(), after.items()
	if len(was)-len(before.labels) != len(before.taints) || len(is)-len(after.labels) != len(after.taints) {
		w.fail("%s has two taints of one key and effect", after.name)
	}
	for item := range policy.Items(nil, slices.Concat(before.taints, after.taints)) {
		value, shown := is[item]
		if old, had := was[item]; had == shown && old == value {
			continue
		}
		switch {
		case gate.Is(policy.TaintOf(item, "")):
		case item == ruleItem && w.story.rule:
		case !slices.Contains(simKeys, item):
			w.fail("capture changed taint %s of %s", item, after.name)
		case shown:
			w.judgePatch(before, item, &value)
		default:
			w.judgePatch(before, item, nil)
		}
	}
}

// judgeLift checks that a Node that loses the gate shows all that is remembered and that nobody took off, and the taints
// that follow from its labels.
func (w *world) judgeLift(before, after *simNode) {
	if !gate.On(before.taints) || gate.On(after.taints) || w.leaders() > 1 || w.story.lateWrites > 0 {
		return
	}
	shown := after.items()
	for item := range w.rememberedOf(after.name) {
		if _, is := shown[item]; !is && !w.neverGiven(item) && !w.model.touched(after, item) {
			w.fail("capture lifts the gate of %s, which lacks the remembered %s", after.name, item)
		}
	}
	for _, taint := range policy.FreeOf(w.policy.TaintsFor(shown), after.taints) {
		w.fail("capture lifts the gate of %s, which lacks the rule's taint %s", after.name, taint.ToString())
	}
}
