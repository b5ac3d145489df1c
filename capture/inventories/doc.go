// Package inventories reads the sources of the policy's inventory. It puts their snapshots in force or holds them, notes which, and writes
// records of Nodes ahead. Package capture asks for the facts of Nodes, and hands in what it knows of them. [Sources] has its own goroutines.
//
// Invariants:
//   - Only the leader reads sources. For another replica nothing is known, so it keeps the labels that the leader has set.
//   - A source that cannot be read, is stale or waits for an operator changes no label.
//   - A snapshot that would change many Nodes waits until an operator accepts it. An acceptance counts once.
//   - A record is written ahead only for a Node that was never observed, and at most so many are.
package inventories
