// Package remove carries out the removal of a Node that failed its checks, and keeps the ledger of removals. The decision is made in package verify;
// docs/design.md has the design.
//
// [Remover.Confirm] finds the object that stands for the Node, [Remover.Blocking] the Pods that keep a Node from being removed. [Remover.Remove]
// removes exactly the confirmed object. [Store] reads and writes the [verify.Ledger].
//
// Invariants:
//   - The Node's own fields (ownerReferences, annotations) only name a candidate: its kubelet can forge both. The candidate's own status must name
//     the Node, and identifiers that both have must be equal.
//   - Every write carries the uid and the resourceVersion that were confirmed. Another object of that name, or a changed one, is never removed.
//   - A removal may be repeated: an object that is deleted, or is being deleted, counts as removed.
//   - One kind never stands in for another.
//   - A ledger that cannot be read is an error, and is never overwritten. If two writers change the same state, one of them gets [ErrChanged].
//   - Everything is read live; nothing is cached.
package remove
