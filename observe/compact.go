package observe

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/packing"
)

// CompactNode is a [Node] in little memory, for the 100,000 Nodes that an informer holds. One string has its own values. Another one, shared with
// many Nodes, has the keys of its labels, their owners, and the keys of its stamp.
type CompactNode struct {
	version string // resourceVersion
	text    string // packed: name, uid, machine, boot, values of labels and annotations, the stamp's values
	shape   unique.Handle[string]
	taints  []corev1.Taint
	facts   Reported
	written []int64 // when the writers in the shape last changed something, in seconds since 1970

	created, deleted metav1.Time
	annotationBytes  int
}

// CompactNodeOf makes a Node small; [CompactNode.Node] reverses it.
func CompactNodeOf(n *Node) *CompactNode {
	keys := make([]string, 0, len(n.Items))
	for key := range n.Items {
		if !record.IsTaint(key) { // taints stand among the taints
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	text, shape := make(packing.Writer, 0, 512), make(packing.Writer, 0, 2048)
	for _, field := range []string{n.Name, string(n.UID), n.Machine.ProviderID, n.Machine.SystemUUID, n.Machine.MachineID, n.BootID} {
		text.Text(field)
	}
	shape.Texts(keys)
	for _, key := range keys {
		text.Text(n.Items[key])
	}
	_, cordoned := n.Items[policy.Cordon]
	shape.Flag(cordoned)
	shape.Number(uint64(len(n.Writers)))
	for _, wrote := range n.Writers {
		shape.Text(wrote.Manager)
		shape.Text(wrote.Operation)
		shape.Text(wrote.Subresource)
		shape.Texts(wrote.Labels)
		shape.Flag(wrote.Taints)
		shape.Flag(wrote.Cordon)
	}
	shape.Texts(n.Claimed)
	shape.Text(n.ReadAnnotations.String())
	shape.Texts(n.TooLarge)
	n.annotations.pack(&shape, &text, n)
	s := &CompactNode{
		version: strings.Clone(n.ResourceVersion), text: string(text), shape: unique.Make(string(shape)), taints: n.Taints,
		facts: n.Reported, created: n.CreationTimestamp, annotationBytes: n.AnnotationBytes,
	}
	for _, wrote := range n.Writers {
		s.written = append(s.written, wrote.Time)
	}
	if n.Deleting() {
		s.deleted = *n.DeletionTimestamp
	}
	return s
}

// pack writes what many Nodes have in common into shape, and the rest into text. A value that the Node shows still is not written again.
func (a annotations) pack(shape, text *packing.Writer, n *Node) {
	shape.Flag(a.stamped)
	shape.Number(uint64(a.by))
	value := func(key, value string) {
		shown, ok := n.Items[key]
		if shape.Flag(ok && shown == value); !ok || shown != value {
			text.Text(value)
		}
	}
	keys := slices.Sorted(maps.Keys(a.stamp.Given))
	shape.Texts(keys)
	for _, key := range keys {
		given := a.stamp.Given[key]
		value(key, given.Value)
		if shape.Flag(given.Version != 0); given.Version != 0 {
			text.Number(uint64(given.Version))
		}
		if shape.Flag(given.From != 0); given.From != 0 {
			text.Number(uint64(given.From))
		}
		shape.Text(string(given.Owners))
	}
	if shape.Flag(a.stamp.Followed != ""); a.stamp.Followed != "" {
		text.Text(a.stamp.Followed)
	}
	shape.Texts(a.stamp.TaintsBehindGate)
	if shape.Flag(a.stamp.Boot == n.BootID); a.stamp.Boot != n.BootID {
		text.Text(a.stamp.Boot)
	}
	keys = slices.Sorted(maps.Keys(a.stamp.Brought))
	shape.Texts(keys)
	for _, key := range keys {
		value(key, a.stamp.Brought[key])
	}
	shape.Number(uint64(len(a.derived)))
	for _, taint := range a.derived {
		shape.Text(taint.Key)
		shape.Text(string(taint.Effect))
		value(record.TaintKey(taint), taint.Value)
	}
	keys = slices.Sorted(maps.Keys(a.labels))
	shape.Texts(keys)
	for _, key := range keys {
		label := a.labels[key]
		value(key, label.Value)
		shape.Text(label.Rule)
		shape.Flag(label.Absent)
		shape.Flag(label.Adopted)
		shape.Flag(label.RemovedAtCreate)
		if shape.Flag(label.Version != 0); label.Version != 0 {
			text.Number(uint64(label.Version))
		}
		if shape.Flag(!label.End.IsZero()); !label.End.IsZero() {
			text.Text(label.End.UTC().Format(time.RFC3339))
		}
	}
}

func unpackAnnotations(shape, text *packing.Reader, n *Node) (a annotations) {
	a.stamped, a.by = shape.Flag(), stampWriter(shape.Number())
	value := func(key string) string {
		if shape.Flag() {
			return n.Items[key]
		}
		return text.Text()
	}
	if keys := shape.Texts(); len(keys) > 0 {
		a.stamp.Given = make(map[string]record.Given, len(keys))
		for _, key := range keys {
			given := record.Given{Value: value(key)}
			if shape.Flag() {
				given.Version = record.Version(text.Number())
			}
			if shape.Flag() {
				given.From = record.Version(text.Number())
			}
			given.Owners = record.Owners(shape.Text())
			a.stamp.Given[key] = given
		}
	}
	if shape.Flag() {
		a.stamp.Followed = text.Text()
	}
	a.stamp.TaintsBehindGate = shape.Texts()
	if a.stamp.Boot = n.BootID; !shape.Flag() {
		a.stamp.Boot = text.Text()
	}
	if keys := shape.Texts(); len(keys) > 0 {
		a.stamp.Brought = make(map[string]string, len(keys))
		for _, key := range keys {
			a.stamp.Brought[key] = value(key)
		}
	}
	if count := shape.Number(); count > 0 {
		a.derived = make([]corev1.Taint, count)
	}
	for i := range a.derived {
		a.derived[i] = corev1.Taint{Key: shape.Text(), Effect: corev1.TaintEffect(shape.Text())}
		a.derived[i].Value = value(record.TaintKey(a.derived[i]))
	}
	if keys := shape.Texts(); len(keys) > 0 {
		a.labels = make(map[string]record.RuleLabel, len(keys))
		for _, key := range keys {
			label := record.RuleLabel{Value: value(key), Rule: shape.Text(), Absent: shape.Flag(), Adopted: shape.Flag(), RemovedAtCreate: shape.Flag()}
			if shape.Flag() {
				label.Version = record.Version(text.Number())
			}
			if shape.Flag() {
				label.End, _ = time.Parse(time.RFC3339, text.Text()) // as it was written
			}
			a.labels[key] = label
		}
	}
	return a
}

// Node returns what was made small.
func (s *CompactNode) Node() *Node {
	n := &Node{Taints: s.taints, Reported: s.facts, AnnotationBytes: s.annotationBytes, Fault: s.fault()}
	text := packing.Reader(s.text)
	n.Name, n.UID, n.ResourceVersion, n.CreationTimestamp = text.Text(), types.UID(text.Text()), s.version, s.created
	if !s.deleted.IsZero() {
		n.DeletionTimestamp = &s.deleted
	}
	if n.Fault != nil {
		return n
	}
	n.readVersion()
	n.Machine = record.Machine{ProviderID: text.Text(), SystemUUID: text.Text(), MachineID: text.Text()}
	n.BootID = text.Text()
	shape := packing.Reader(s.shape.Value())
	keys := shape.Texts()
	n.Items = make(map[string]string, len(keys)+len(s.taints)+1)
	maps.Copy(n.Items, policy.ItemsOf(nil, s.taints, shape.Flag()))
	for _, key := range keys {
		n.Items[key] = text.Text()
	}
	if count := shape.Number(); count > 0 {
		n.Writers = make([]Writer, count)
	}
	for i := range n.Writers {
		n.Writers[i] = Writer{Manager: shape.Text(), Operation: shape.Text(), Subresource: shape.Text(), Labels: shape.Texts(), Taints: shape.Flag(), Cordon: shape.Flag(), Time: s.written[i]}
	}
	n.Owners = ownersOf(n.Writers)
	n.Claimed = shape.Texts()
	n.ReadAnnotations, n.TooLarge = policy.AnnotationsOf(shape.Text()), shape.Texts()
	n.annotations = unpackAnnotations(&shape, &text, n)
	return n
}

// Unreadable returns a Node of which nothing is known but which object it is, because reading it panicked. It has no shape.
func Unreadable(name string, uid types.UID, version string, fault *contain.Panic) *CompactNode {
	var text packing.Writer
	for _, field := range []string{name, string(uid), fault.Value, fault.Stack} {
		text.Text(field)
	}
	return &CompactNode{version: version, text: string(text)}
}

// fault returns why nothing may be concluded from the Node, if so.
func (s *CompactNode) fault() error {
	if s.shape != (unique.Handle[string]{}) {
		return nil
	}
	text := packing.Reader(s.text)
	text.Text()
	text.Text()
	return &contain.Panic{Value: text.Text(), Stack: text.Text()}
}

// Name returns the Node's.
func (s *CompactNode) Name() string {
	text := packing.Reader(s.text)
	return text.Text()
}

// UID returns the Node object's.
func (s *CompactNode) UID() types.UID {
	text := packing.Reader(s.text)
	text.Text()
	return types.UID(text.Text())
}

// Version returns the resourceVersion as the API server gave it out.
func (s *CompactNode) Version() string { return s.version }

// Taints returns the Node's.
func (s *CompactNode) Taints() []corev1.Taint { return s.taints }

// Created returns when the object was created, by the API server's clock; zero where that is not known.
func (s *CompactNode) Created() metav1.Time { return s.created }

// AnnotationBytes returns the size of the annotations that are not nodekeep's.
func (s *CompactNode) AnnotationBytes() int { return s.annotationBytes }

// SameRuleFacts reports whether two states of a Node are equal in what the rules use.
func (s *CompactNode) SameRuleFacts(o *CompactNode, rules classify.Rules) bool {
	return s.facts.SameRuleFacts(o.facts, rules)
}

// SameKubeletReport reports whether the kubelet reports the same of the machine. A heartbeat does.
func (s *CompactNode) SameKubeletReport(o *CompactNode) bool { return s.facts == o.facts }

// DecisionsDiffer reports whether anything that a decision uses is different, without the facts for rules. A heartbeat differs in nothing. The time
// of a client's last change alone is no difference.
func (s *CompactNode) DecisionsDiffer(o *CompactNode) bool {
	if fault, otherFault := s.fault(), o.fault(); fault != nil && otherFault != nil { // their stacks differ each time
		return s.UID() != o.UID() || fault.Error() != otherFault.Error()
	}
	return s.text != o.text || s.shape != o.shape || s.deleted.IsZero() != o.deleted.IsZero() ||
		!maps.Equal(record.Join(nil, s.taints), record.Join(nil, o.taints))
}

// GetObjectMeta is for the informer.
func (s *CompactNode) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Name: s.Name(), UID: s.UID(), ResourceVersion: s.version}
}
