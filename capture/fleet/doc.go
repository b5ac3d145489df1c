// Package fleet counts what all Nodes together say. That is which rules of governance they break, and how many have each value of a governed
// label. It is also on how many Nodes rules would change labels, and how far migrations are. Package capture hands in what is observed.
//
// Invariants:
//   - A heartbeat costs nothing, and a scrape walks over no Nodes.
//   - The policy bounds the series. None carries the name of a Node.
//   - A Node counts once, however often it is observed.
package fleet
