package capture

import "nodekeep.dev/nodekeep/policy"

// annotatedStamp is the stamp as the annotation has it, and who wrote it by managedFields.
type annotatedStamp struct {
	Stamp   policy.Stamp
	Stamped bool
	By      stampWriter
}

// setStamp reads the annotation with care: a kubelet can write annotations and choose the name of its field manager.
func (n *Node) setStamp(annotated annotatedStamp) {
	n.annotated = annotated
	if annotated.By != byOthers {
		n.Stamp, n.Stamped = annotated.Stamp, annotated.Stamped
	}
	n.Registered = n.Stamped && annotated.By == byWebhook
}

// withGuards is the Node as it is to be read while the guard policies are in force, or are not. While they are, no kubelet can write
// the annotation, so it is evidence and managedFields, which a kubelet can still write, do not matter. Whoever
// writes a stamp adds the registration taints in the same request.
func (n *Node) withGuards(inForce bool) *Node {
	if !inForce {
		return n
	}
	guarded := *n
	guarded.Stamp, guarded.Stamped = n.annotated.Stamp, n.annotated.Stamped
	guarded.Registered, guarded.Guarded = n.annotated.Stamped, true
	return &guarded
}
