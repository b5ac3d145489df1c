// Package quantity knows the resources of a Node: which names there can be, and how an amount is written. Rules for labels and profiles of
// verification share it, so both accept the same. The package is pure.
//
// Invariants:
//   - A name without a domain is one that Kubernetes has, or an error. So a misspelt name never counts as a resource that no Node has.
//   - A name with a domain may be any, because device plugins choose it.
//   - Reading an amount takes no longer for a long exponent.
package quantity
