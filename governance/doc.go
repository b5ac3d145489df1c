// Package governance decides which labels of Nodes may have which values, and who may set them: the section governance of the policy.
// docs/governance.md has the design.
//
// [Compile] checks the section. [Rules.Violations] is what is wrong with the labels of a Node, [Rules.ViolationsOf] what a change of labels adds
// to that. [Render] writes the ValidatingAdmissionPolicies that say the same to the API server, from the template of the chart. The package is
// pure: values in, values out.
//
// Invariants:
//   - Only an UPDATE is denied, and never one of a kubelet or of nodekeep: no rule keeps a Node out of the cluster.
//   - A change is judged by what it adds. A Node that was wrong before stays editable.
//   - The chart and the command use the same template, so they render the same policies.
//   - What a policy file says reaches the policies only as JSON strings, which CEL reads as the same text.
package governance
