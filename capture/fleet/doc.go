// Package fleet counts Nodes: by broken rule of governance, by value of a governed label, by whether rules would change their labels, and by state of
// migration. Package capture hands in what is observed.
//
// Invariants:
//   - A heartbeat costs nothing, and a scrape walks over no Nodes.
//   - The policy bounds the series. None carries the name of a Node.
//   - A Node counts once, however often it is observed.
package fleet
