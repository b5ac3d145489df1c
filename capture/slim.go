package capture

import (
	"maps"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/policy"
)

// slimNode is a [Node] in little memory, for the 100,000 that the informer holds: its own values stand in one string, and
// what it has in common with many others, the keys of its labels, who owns them and its stamp, in one for all of them.
type slimNode struct {
	version string // resourceVersion
	text    string // packed: name, uid, machine, values of labels
	shape   unique.Handle[string]
	taints  []corev1.Taint
	written []int64 // when the writers in the shape last changed something, in seconds since 1970

	created, deleted metav1.Time
	annotationBytes  int
}

// slimOf makes a Node small; [slimNode.node] reverses it.
func slimOf(n *Node) *slimNode {
	labels := maps.Clone(n.Items)
	maps.DeleteFunc(labels, func(item, _ string) bool { return policy.IsTaint(item) }) // they stand among the taints
	keys := slices.Sorted(maps.Keys(labels))
	text := make(packing, 0, 512)
	for _, field := range []string{n.Name, string(n.UID), n.Machine.ProviderID, n.Machine.SystemUUID, n.Machine.MachineID} {
		text.text(field)
	}
	for _, key := range keys {
		text.text(labels[key])
	}
	s := &slimNode{
		version: strings.Clone(n.ResourceVersion), text: string(text), shape: unique.Make(shapeOf(n, keys)), taints: n.Taints,
		created: n.CreationTimestamp, annotationBytes: n.AnnotationBytes,
	}
	for _, wrote := range n.Writers {
		s.written = append(s.written, wrote.At)
	}
	if n.deleting() {
		s.deleted = *n.DeletionTimestamp
	}
	return s
}

// shapeOf packs what many Nodes have in common; keys are those of the labels.
func shapeOf(n *Node, keys []string) string {
	shape := make(packing, 0, 2048)
	shape.texts(keys)
	shape.number(len(n.Writers))
	for _, wrote := range n.Writers {
		shape.text(wrote.Manager)
		shape.texts(wrote.Labels)
		shape.flag(wrote.Taints)
	}
	stamp := n.annotated.Stamp
	shape.texts(stamp.Restored)
	shape.texts(stamp.Pending)
	shape.byText(stamp.Taints)
	shape.byText(stamp.Brought)
	shape.byText(stamp.RuleTaints)
	shape.flag(n.annotated.Stamped)
	shape.number(int(n.annotated.By))
	shape.texts(n.Claimed)
	return string(shape)
}

// node is what was made small.
func (s *slimNode) node() *Node {
	n := &Node{Taints: s.taints, AnnotationBytes: s.annotationBytes, Fault: s.fault()}
	text := packed(s.text)
	n.Name, n.UID, n.ResourceVersion, n.CreationTimestamp = text.text(), types.UID(text.text()), s.version, s.created
	if !s.deleted.IsZero() {
		n.DeletionTimestamp = &s.deleted
	}
	if n.Fault != nil {
		return n
	}
	n.Machine = policy.Machine{ProviderID: text.text(), SystemUUID: text.text(), MachineID: text.text()}
	shape := packed(s.shape.Value())
	keys := shape.texts()
	labels := make(map[string]string, len(keys))
	for _, key := range keys {
		labels[key] = text.text()
	}
	n.Items = policy.Items(labels, s.taints)
	if count := shape.number(); count > 0 {
		n.Writers = make([]writer, count)
	}
	for i := range n.Writers {
		n.Writers[i] = writer{Manager: shape.text(), Labels: shape.texts(), Taints: shape.flag(), At: s.written[i]}
	}
	n.Owners = ownersOf(n.Writers)
	stamp := policy.Stamp{
		Restored: shape.texts(), Pending: shape.texts(),
		Taints: shape.byText(), Brought: shape.byText(), RuleTaints: shape.byText(),
	}
	n.setStamp(annotatedStamp{Stamp: stamp, Stamped: shape.flag(), By: stampWriter(shape.number())})
	n.Claimed = shape.texts()
	return n
}

// unreadableNode is a Node of which nothing is known but which object it is, because reading it panicked. It has no shape.
func unreadableNode(name string, uid types.UID, version string, fault *contain.Panic) *slimNode {
	var text packing
	for _, field := range []string{name, string(uid), fault.Value, fault.Stack} {
		text.text(field)
	}
	return &slimNode{version: version, text: string(text)}
}

// fault is why nothing may be concluded from the Node, if so.
func (s *slimNode) fault() error {
	if s.shape != (unique.Handle[string]{}) {
		return nil
	}
	text := packed(s.text)
	text.text()
	text.text()
	return &contain.Panic{Value: text.text(), Stack: text.text()}
}

// name is the Node's.
func (s *slimNode) name() string {
	text := packed(s.text)
	return text.text()
}

// uid is the Node object's.
func (s *slimNode) uid() types.UID {
	text := packed(s.text)
	text.text()
	return types.UID(text.text())
}

// differs reports whether anything that a plan looks at is different. A heartbeat differs in nothing, and when somebody last
// changed something is no difference of its own.
func (s *slimNode) differs(other *slimNode) bool {
	if was, is := s.fault(), other.fault(); was != nil && is != nil { // their stacks differ each time
		return s.uid() != other.uid() || was.Error() != is.Error()
	}
	return s.text != other.text || s.shape != other.shape || s.deleted.IsZero() != other.deleted.IsZero() ||
		!maps.Equal(policy.Items(nil, s.taints), policy.Items(nil, other.taints))
}

// GetObjectMeta is for the informer.
func (s *slimNode) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Name: s.name(), UID: s.uid(), ResourceVersion: s.version}
}
