package capture

import (
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
	// Registered says that admission wrote it, and with it put on what a new Node gets once.
	Registered bool
	// AnnotationBytes is the size of all other annotations, keys and values.
	AnnotationBytes int
	// Owners holds the managers of each label by metadata.managedFields. A label without an entry has none.
	Owners map[string][]string
	// Writers is what managedFields tell besides: when, and who wrote the taints. Only the history is made from it.
	Writers []writer
	// Claimed lists the labels that annotations claim for other components.
	Claimed []string
	Machine policy.Machine
	// Refused holds the labels that the API server would not have on this very object. Not part of the object:
	// the controller adds what it found out.
	Refused map[string]bool
	// BornGated says that this object was made while the gate policy was in force. Not part of the object either.
	BornGated bool
}

// nodeOf keeps what is needed of a Node object.
func nodeOf(object *corev1.Node) *Node {
	stamp, stamped := policy.ParseStamp(object.Annotations[policy.StampAnnotation])
	owned := ownedFieldsOf(object.ManagedFields)
	if owned.stamp == byOthers {
		stamp, stamped = policy.Stamp{}, false
	}
	return &Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion,
			DeletionTimestamp: object.DeletionTimestamp, CreationTimestamp: object.CreationTimestamp,
		},
		Taints:          object.Spec.Taints,
		Items:           policy.Items(object.Labels, object.Spec.Taints),
		Stamp:           stamp,
		Stamped:         stamped,
		Registered:      stamped && owned.stamp == byWebhook,
		AnnotationBytes: policy.AnnotationBytes(object.Annotations),
		Owners:          ownersOf(owned.writers),
		Writers:         owned.writers,
		Claimed:         policy.Claimed(object.Annotations),
		Machine: policy.Machine{
			ProviderID: object.Spec.ProviderID,
			SystemUUID: object.Status.NodeInfo.SystemUUID,
			MachineID:  object.Status.NodeInfo.MachineID,
		},
	}
}

// metadata is what the policy looks at; ruleTaints are those of its taints that our rules put there.
func (n *Node) metadata(ruleTaints []corev1.Taint) policy.Metadata {
	return policy.Metadata{Items: n.Items, Owners: n.Owners, Claimed: n.Claimed, RuleTaints: ruleTaints, Machine: n.Machine}
}

// deleting reports whether the Node waits only for its finalizers.
func (n *Node) deleting() bool { return n.DeletionTimestamp != nil }
