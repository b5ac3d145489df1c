// Package guard knows whether the admission policies are in force that keep kubelets from nodekeep's annotations.
//
// Invariants:
//   - The policies count only if their specs are those that nodekeep ships, failurePolicy aside. A binding that was changed counts as none.
//   - A restart of the API server changes no policy. So policies that cannot be read count as missing only from the third failure in a row. At
//     the start of a process the first failure counts.
package guard
