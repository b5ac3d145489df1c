// Package attack plays attackers against one installation that has everything turned on, on a real control plane.
//
// Invariants:
//   - The installation is the chart with testdata/everything.yaml, as Helm renders it, with the hooks of the uninstall.
//   - An attacker has an identity that clients of a real cluster have, and no more.
//   - Processes run while the standing attackers attack, and at no other time.
//   - What is expected stands in docs/security.md and testdata/rights.md. The tests print the same tables.
package attack
