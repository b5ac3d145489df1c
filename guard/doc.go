// Package guard knows whether the admission policies are in force that keep kubelets from nodekeep's annotations.
//
// Invariants:
//   - The policies count only if their specs are those that nodekeep ships; a binding that was changed counts as none.
//   - Policies that cannot be read count as missing only from the third failure in a row. A restart of the API server changes no policy.
package guard
