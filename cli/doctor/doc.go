// Package doctor judges an installation of nodekeep by what was read of it.
//
// A check is a question that an operator would ask. It is a pure function from what was read to its answer: right, not right, or not known. Package
// [nodekeep.dev/nodekeep/cli/examine] does the reading.
//
// Invariants:
//   - Pure: values in, values out; the linter holds this. The time is a value, and so is why something could not be read.
//   - An unknown state is never called right. A check that lacks some of its input names the missing part.
//   - Every finding names its object, the consequence, and the remedy.
//   - The manifests hold the expected state of each object and the rights that the processes need; see [Shipped]. Package manifests compares.
//   - A missing right has one remedy, whichever command lacks it: [GrantTo] prefers the ClusterRoles that nodekeep ships.
//   - Nothing grows with the number of Nodes and records: of many the first are named and all are counted.
package doctor
