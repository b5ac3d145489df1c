package observe

import (
	"fmt"
	"slices"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// Node is what nodekeep reads of a Node object.
type Node struct {
	metav1.ObjectMeta // name, UID, resourceVersion and the timestamps only; and managedFields, if they are set for a PATCH

	// Version is the resourceVersion.
	Version record.Version
	Taints  []corev1.Taint
	// Items are the labels, the taints, the cordon and the annotations that are kept, by key.
	Items map[string]string
	// ReadAnnotations says which annotations were read. Of the others nothing is known.
	ReadAnnotations policy.Annotations
	// TooLarge are the keys of annotations that would be among the items, were there room for their values.
	TooLarge []string
	// Owners holds the managers of each label and kept annotation by metadata.managedFields, nodekeep left out. One without an entry has none.
	Owners map[string][]string
	// Writers is what managedFields show in addition: when, and who wrote the taints. Only the history is made from it.
	Writers []Writer
	// Claimed lists the labels that annotations claim for other components.
	Claimed []string
	Machine record.Machine
	// BootID names the boot of the machine, as the kubelet reports it; empty: it is not known.
	BootID string
	// Reported is what the kubelet reports of the machine.
	Reported Reported
	// AnnotationBytes is the size of all annotations but nodekeep's own, keys and values.
	AnnotationBytes int
	// Fault is why nothing may be concluded from this Node; nil unless the Node could not be read.
	Fault error

	annotations annotations
}

// FromNode reads a Node object without its annotations.
func FromNode(object *corev1.Node) *Node {
	return FromNodeWithAnnotations(object, policy.Annotations{})
}

// FromNodeWithAnnotations reads a Node object and the annotations that the policy keeps, each text as readers of JSON see it.
func FromNodeWithAnnotations(object *corev1.Node, keep policy.Annotations) *Node {
	taints := taintsOf(object.Spec.Taints)
	owned := ownedFieldsOf(object.ManagedFields, keep)
	n := &Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion,
			DeletionTimestamp: object.DeletionTimestamp, CreationTimestamp: object.CreationTimestamp,
		},
		Taints:          taints,
		Items:           policy.ItemsOf(policy.TextMap(object.Labels), taints, object.Spec.Unschedulable),
		AnnotationBytes: policy.AnnotationBytes(object.Annotations),
		Owners:          ownersOf(owned.writers),
		Writers:         owned.writers,
		Claimed:         policy.Claimed(object.Annotations),
		Machine:         policy.MachineOf(object.Spec.ProviderID, object.Status.NodeInfo.SystemUUID, object.Status.NodeInfo.MachineID),
		BootID:          policy.BootOf(object.Status.NodeInfo),
		Reported:        reportedBy(object),
		ReadAnnotations: keep,
		annotations:     annotationsOf(object.Annotations, owned.stamp),
	}
	kept, tooLarge := keep.Select(object.Annotations)
	record.JoinAnnotations(n.Items, kept)
	for _, annotation := range tooLarge {
		n.TooLarge = append(n.TooLarge, record.AnnotationKey(annotation))
	}
	n.readVersion()
	return n
}

// readVersion reads the resourceVersion. Kubernetes gives out numbers only, and what cannot be compared cannot be merged.
func (n *Node) readVersion() {
	version, err := record.ParseVersion(n.ResourceVersion)
	if n.Version = version; err != nil {
		n.Fault = fmt.Errorf("read resourceVersion of node %q: %w", n.Name, err)
	}
}

// Deleting reports whether the Node waits only for its finalizers.
func (n *Node) Deleting() bool { return n.DeletionTimestamp != nil }

// Shows reports whether the Node has an item.
func (n *Node) Shows(item string) bool {
	_, shown := n.Items[item]
	return shown
}

// taintsOf returns taints that a PATCH can send back: the list itself where it holds no other.
func taintsOf(taints []corev1.Taint) []corev1.Taint {
	sendable := func(taint corev1.Taint) bool {
		return utf8.ValidString(taint.Key) && utf8.ValidString(taint.Value) && utf8.ValidString(string(taint.Effect)) &&
			(taint.TimeAdded == nil || hasTime(*taint.TimeAdded))
	}
	if !slices.ContainsFunc(taints, func(taint corev1.Taint) bool { return !sendable(taint) }) {
		return taints
	}
	taints = slices.Clone(taints)
	for i, taint := range taints {
		taints[i].Key, taints[i].Value, taints[i].Effect = policy.Text(taint.Key), policy.Text(taint.Value), corev1.TaintEffect(policy.Text(string(taint.Effect)))
		if taint.TimeAdded != nil && !hasTime(*taint.TimeAdded) {
			taints[i].TimeAdded = nil
		}
	}
	return taints
}

// hasTime reports whether a time is set and can be written as JSON: protobuf holds years that RFC 3339 cannot.
func hasTime(t metav1.Time) bool {
	year := t.UTC().Year()
	return !t.IsZero() && year >= 1 && year <= 9999
}
