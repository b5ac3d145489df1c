// Package guard knows whether the admission policies are in force that keep kubelets from nodekeep's annotations.
//
// Invariants:
//   - The policies count only if their specs are those that nodekeep ships; a binding that was changed counts as none.
//   - What could not be read does not count as missing before the third time in a row: an API server that restarts changes no policy.
package guard
