// Package governance decides which values the labels of Nodes may have, and who may set them. It covers the section governance of the
// policy. docs/governance.md has the design.
//
// [Compile] checks the section. [Rules.Violations] is what is wrong with the labels of a Node. The API server judges changes of
// labels by the ValidatingAdmissionPolicies of the chart, which read the NodePolicy. The package is pure: values in, values out.
//
// Invariants:
//   - Only an UPDATE is denied, but never one that a kubelet or nodekeep sends. No rule keeps a Node out of the cluster.
//   - A change is judged by what it adds. A Node that was wrong before stays editable.
//   - The admission policies say the same of a change as the rules in Go, whatever the policy is.
package governance
