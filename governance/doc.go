// Package governance decides which values the labels of Nodes may have, and who may set them. It covers the section governance of the
// policy. docs/governance.md has the design.
//
// [Compile] checks the section. [Rules.Violations] is what is wrong with the labels of a Node. [Render] writes the
// ValidatingAdmissionPolicies, by which the API server judges changes of labels, from the template of the chart. The package is pure: values
// in, values out.
//
// Invariants:
//   - Only an UPDATE is denied, but never one that a kubelet or nodekeep sends. No rule keeps a Node out of the cluster.
//   - A change is judged by what it adds. A Node that was wrong before stays editable.
//   - The chart and the command use the same template, so they render the same policies.
//   - A text of a policy file reaches the policies only as a JSON string. CEL reads it as the same text.
package governance
