// Command generate writes what follows from the types of the policy. These are the CustomResourceDefinition and the schema of the chart's value
// policy. The tables of kinds of checks and of causes in docs/verification.md follow, too. The table of the chart's values, in its README.md, follows from
// values.yaml. With -check it writes nothing, and fails where a file is another one.
//
// Invariants:
//   - The types are the one source of what a policy is: package policy and what it imports.
//   - The chart's schema refuses no policy that the API server takes. It names a field of the wrong form before Helm changes anything.
package main
