// Package inventory reads what an outside source says of Nodes. It covers the section inventory of the policy, and snapshots of its
// sources. docs/rules.md has the format.
//
// Invariants:
//   - An inventory supplies facts. Only rules make labels.
//   - What is wrong in an entry concerns the Node of that entry alone. It is not known, and [Snapshot.Problems] names it. A document
//     that cannot be read is refused as a whole. What the policy does not list is ignored.
//   - Decode is streamed. Memory grows only with the Nodes and attributes that are kept, not with what a source nests or repeats.
//   - A Node whose systemUUID differs from the one in the inventory has no facts.
//   - The package is pure: values in, values out. Package fetch reads the sources.
package inventory
