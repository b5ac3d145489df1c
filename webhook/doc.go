// Package webhook answers the AdmissionReviews of Node CREATE: AdmissionReview -> decode -> plan -> patch. It also answers those of Node
// DELETE. It reads the Node that a review names from the API server, and merges it into its record ([Deletions]). And it judges each
// NodePolicy before it is stored ([NewPolicyHandler]).
//
// Invariants:
//   - It never denies a Node. Every decision on one is `allowed: true`. An input that is no AdmissionReview, or has no answer, becomes an HTTP error,
//     which the shipped failurePolicy Ignore forgives.
//   - That policy does not forgive `allowed: false`, a patch that does not apply, or an invalid label or taint. Nor does it forgive two
//     taints of one key and effect. Each of these would keep a Node out.
//   - A patch always applies to the object it was made for, and holds only valid values. It touches only labels, taints,
//     spec.unschedulable, annotations that the policy keeps, and our own.
//   - A patch removes only the gate, and what a rule of the policy names in ensureAbsent. On a kubelet's CREATE it never holds a label that
//     NodeRestriction denies to kubelets.
//   - No API call and no side effect at a CREATE. A CREATE is no proof of a new Node: every kubelet start sends one.
//   - It denies a NodePolicy only for its own spec, with all errors in it at once. Whatever else changes in the object is allowed.
//   - A review of a deletion is a hint. The record comes from the API server, never from the review.
//   - Of the object's status only nodeInfo, capacity and allocatable are decoded, and only if the policy asks for them.
package webhook
