// Package inventory reads what an outside source says of Nodes: the section inventory of the policy, and snapshots of its sources.
// docs/inventory.md has the format.
//
// Invariants:
//   - An inventory supplies facts. Only rules make labels.
//   - A snapshot is accepted whole or not at all: one wrong value refuses all of it.
//   - Decode is streamed: memory grows with the Nodes and the attributes that are kept, never with what a source nests or repeats.
//   - A Node whose systemUUID is another one than the inventory lists has no facts.
//   - The package is pure: values in, values out. Package fetch reads the sources.
package inventory
