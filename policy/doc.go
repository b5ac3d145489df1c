// Package policy decides what nodekeep records of a Node and what it restores.
//
// Webhook and capture take every decision with the functions of this package, so they cannot disagree. The recorded items of a Node are
// labels, taints, and the annotations that the policy names. The key of a label is its own key, that of a taint its key and effect.
//
// Invariants:
//   - Pure: values in, values out. No context, clock, network, logger or metrics; the linter holds this.
//   - Inputs are never changed and never kept. Every returned map belongs to the caller, unless its function says otherwise.
//   - Total: labels, annotations and policy files come from outside and may hold anything. Nothing here panics. The API server accepts
//     everything that [Policy.Restorable] returns, whatever a record holds.
//   - A key that the policy no longer selects stays in the record, but is not restored. A typo must not erase records.
package policy
