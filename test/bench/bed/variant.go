package bed

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
)

// Answerer is who answers the API server when a Node is created.
type Answerer string

// Who may answer.
const (
	NoWebhook Answerer = ""         // no webhook is configured
	Noop      Answerer = "/noop"    // reads the AdmissionReview and lets the Node pass
	Mark      Answerer = "/mark"    // always the same patch: one annotation
	Labels    Answerer = "/labels"  // always the same patch: the annotation and the ten labels
	Nodekeep  Answerer = "/restore" // nodekeep's webhook
)

// Variant is how a CREATE is answered.
type Variant struct {
	Name     string
	Answerer Answerer
	Gate     bool // the gate policy is in force
	Guards   bool // the guard policies are in force
	Recorded bool // there are records of the Nodes
	// Program is the webhook of nodekeep's that answers; nil is the one that was started last.
	Program *Program
}

// markAnnotation is what the reference webhooks set on a Node, about as long as nodekeep's stamp.
const markAnnotation = "bench.example.com/mark"

// Check reports what a Node lacks or has too much after its CREATE under the variant.
func (v Variant) Check(node *corev1.Node) error {
	if got, want := mark(node), v.mark(); got != want {
		return fmt.Errorf("node %q: the annotation is that of %q and not of %q", node.Name, got, want)
	}
	if v.Answerer == Labels || v.Answerer == Nodekeep && v.Recorded {
		for key, value := range Kept() {
			if got, found := node.Labels[key]; !found || got != value {
				return fmt.Errorf("node %q: label %s is missing", node.Name, key)
			}
		}
	}
	// nodekeep has nothing to leave for later here, so it lifts the gate; the others know nothing of it.
	if gated := policy.DefaultGate.Present(node.Spec.Taints); gated != (v.Gate && v.Answerer != Nodekeep) {
		return fmt.Errorf("node %q: that it is gated is %t", node.Name, gated)
	}
	return nil
}

// mark shows by a Node who has answered, where that can be seen.
func mark(node *corev1.Node) Answerer {
	if _, found := node.Annotations[policy.StampAnnotation]; found {
		return Nodekeep
	}
	return Answerer(node.Annotations[markAnnotation])
}

func (v Variant) mark() Answerer {
	if v.Answerer == Noop {
		return NoWebhook
	}
	return v.Answerer
}
