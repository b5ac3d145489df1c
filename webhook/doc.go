// Package webhook answers the AdmissionReviews of Node CREATE: AdmissionReview -> decode -> decide -> patch.
//
// Invariants:
//   - It never denies. Whatever comes in, a decision is `allowed: true`; what is no AdmissionReview, or what we cannot
//     answer, becomes an HTTP error, which the shipped failurePolicy Ignore forgives. It forgives neither `allowed: false`
//     nor a patch that does not apply, nor a label that the API server finds invalid: each would keep a Node out.
//   - A patch always applies to the object it was made for, touches only labels, our own annotation and the gate taint,
//     and holds only valid labels. On a kubelet's CREATE it never holds a label that NodeRestriction denies to kubelets.
//   - No API call and no side effect: a CREATE is no proof of a new Node, every kubelet start sends one.
//   - The object's status is never decoded.
package webhook
