// Simulation is the model checker of package record (make model). It drives the product's own rule through every interleaving, up to a bound. These
// events can happen to the Nodes of one name:
//
//   - Clients set, change and remove labels and taints, delete the Node, and remove annotations. Other admission policies set labels. Kubelets
//     register Nodes, with values of their own, and send heartbeats.
//   - The webhook restores from the newest record, from an older one, or is down. The DELETE handler works, or is down.
//   - Two captures work on a queue of states that grows while they work. Each write of a record and each PATCH is a step of its own. A capture may
//     restart between any two, or patch the Node by a record that is no longer the newest.
//   - The policy stops selecting a key and selects it again. A rule derives a taint from a label. Another machine takes the name, is quarantined, and
//     an operator accepts a side.
//
// When no process has anything left to do, the record and the Node must be as package oracle requires. It knows who did what and which states were
// observed, and shares no code with the rule. A promise that is not kept must be one of the limits of docs/design.md, section 5.8. Each limit is an
// [oracle.Excuse]; the output counts them.
//
// Separately, orders.go takes every history of one key up to a length, and every subset of its states. It takes every order in which these can be
// observed, each as often as one likes. All must lead to the same.
//
// Package labels is the part about migrations and rules for labels. Package search visits the states of both parts, and shrinks and replays
// counterexamples.
//
// A counterexample is shrunk and printed as text, one step a line. It can be replayed:
//
//	go run ./test/simulation -replay FILE
package main
