// Command nodekeep makes labels survive the deletion of their Nodes.
//
// It is one binary with three processes. `nodekeep webhook` restores labels while a Node registers. `nodekeep capture` records them and completes
// what admission could not do. `nodekeep verify` has Nodes checked before they take workloads, by `nodekeep worker` in a Pod on the Node. The
// operator's commands are in package cli. This package only wires: it reads flags, makes the parts and runs them.
//
// Invariants:
//   - Every error in the flags, and in their files, is named before anything starts, with exit code 2.
//   - A process that must stop first stops being ready, then finishes what it has accepted.
package main
