// Package webhook answers the AdmissionReviews of Node CREATE: AdmissionReview -> decode -> decide -> patch. It also answers those of
// Node DELETE: it reads the Node that a review names from the API server, and merges it into its record ([Deletions]).
//
// Invariants:
//   - It never denies. Whatever comes in, a decision is `allowed: true`; what is no AdmissionReview, or what we cannot
//     answer, becomes an HTTP error, which the shipped failurePolicy Ignore forgives. It forgives neither `allowed: false`
//     nor a patch that does not apply, nor a label or taint that the API server finds invalid, nor two taints of one key and effect: each would keep a
//     Node out.
//   - A patch always applies to the object it was made for, holds only what is valid, and touches only labels, taints, spec.unschedulable, annotations
//     that the policy keeps, and our own. It removes only the gate, and what a rule of the policy names in ensureAbsent. On a kubelet's CREATE it never holds a label that NodeRestriction denies to kubelets.
//   - No API call and no side effect at a CREATE: it is no proof of a new Node, every kubelet start sends one.
//   - A review of a deletion is a hint: what is recorded comes from the API server, never from the review.
//   - Of the object's status only nodeInfo, capacity and allocatable are decoded, and only if the policy asks for them.
package webhook
