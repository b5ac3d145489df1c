// Package policy decides what nodekeep records of a Node and what it restores.
//
// Webhook and capture take every decision with the functions of this package, so they cannot disagree. What is recorded of
// a Node are items: labels, each under its key, taints, each under its key and effect, and the annotations
// that the policy names.
//
// Invariants:
//   - Pure: values in, values out. No context, clock, network, logger or metrics; the linter holds this.
//   - Inputs are never changed and never kept: every map that is returned is the caller's own, unless its function says
//     otherwise.
//   - Total: labels, annotations and policy files come from outside and may hold anything. Nothing here panics,
//     and what [Policy.Restorable] hands out is valid for the API server, whatever a record holds.
//   - A key that the policy no longer selects stays in the record and is not restored: a typo must not erase records.
package policy
