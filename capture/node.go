package capture

import (
	"slices"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
)

// Node is what capture needs of a Node; the rest of the object is dropped before it is stored.
type Node struct {
	metav1.ObjectMeta // name, UID, resourceVersion and the timestamps only

	Taints []corev1.Taint
	// Items are the labels and taints.
	Items map[string]string
	// Stamp is what we wrote on this object; Stamped is false where we wrote nothing, or somebody else wrote over it.
	Stamp   policy.Stamp
	Stamped bool
	// Registered says that registration taints were added with the stamp.
	Registered bool
	annotated  annotatedStamp
	// AnnotationBytes is the size of all other annotations, keys and values.
	AnnotationBytes int
	// Owners holds the managers of each label by metadata.managedFields. A label without an entry has none.
	Owners map[string][]string
	// Writers is what managedFields tell besides: when, and who wrote the taints. Only the history is made from it.
	Writers []writer
	// Claimed lists the labels that annotations claim for other components.
	Claimed []string
	Machine policy.Machine
	// Fault is why nothing may be concluded from what the Node shows; nil for all but a Node that could not be read.
	Fault error
	// Refused holds the labels that the API server would not have on this very object. Not part of the object:
	// the controller adds what it found out.
	Refused map[string]bool
	// Guarded says that no kubelet can have written the stamp; see [Node.withGuards]. Not part of the object either.
	Guarded bool
}

// nodeOf keeps what is needed of a Node object, each text as readers of JSON see it.
func nodeOf(object *corev1.Node) *Node {
	labels, taints := policy.TextMap(object.Labels), taintsOf(object.Spec.Taints)
	stamp, stamped := policy.ParseStamp(object.Annotations[policy.StampAnnotation])
	owned := ownedFieldsOf(object.ManagedFields)
	n := &Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion,
			DeletionTimestamp: object.DeletionTimestamp, CreationTimestamp: object.CreationTimestamp,
		},
		Taints:          taints,
		Items:           policy.Items(labels, taints),
		AnnotationBytes: policy.AnnotationBytes(object.Annotations),
		Owners:          ownersOf(owned.writers),
		Writers:         owned.writers,
		Claimed:         policy.Claimed(object.Annotations),
		Machine:         policy.MachineOf(object.Spec.ProviderID, object.Status.NodeInfo.SystemUUID, object.Status.NodeInfo.MachineID),
	}
	n.setStamp(annotatedStamp{Stamp: stamp, Stamped: stamped, By: owned.stamp})
	return n
}

// taintsOf are taints that a PATCH can send back: the list itself where it holds no other.
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

// metadata is what the policy looks at; ruleTaints are those of its taints that our rules put there.
func (n *Node) metadata(ruleTaints []corev1.Taint) policy.Metadata {
	return policy.Metadata{Items: n.Items, Owners: n.Owners, Claimed: n.Claimed, RuleTaints: ruleTaints, Machine: n.Machine}
}

// deleting reports whether the Node waits only for its finalizers.
func (n *Node) deleting() bool { return n.DeletionTimestamp != nil }
