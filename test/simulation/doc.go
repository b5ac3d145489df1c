// Simulation is the model checker of package record (make model). It drives the product's own rule through every interleaving, up to
// a bound, of what can happen to the Nodes of one name:
//
//   - clients set, change and remove labels and taints, delete the Node, and remove annotations; other admission policies set
//     labels; kubelets register Nodes, with values of their own, and send heartbeats;
//   - the webhook restores from the newest record, from an older one, or is down; the DELETE handler works, or is down;
//   - two captures work on a queue of states that grows while they work. Each write of a record and each PATCH is a step of its own, and
//     a capture may restart between any two, or patch the Node by a record that is not the newest any more;
//   - the policy stops selecting a key and selects it again; a rule derives a taint from a label; another machine takes the name, is
//     quarantined, and an operator accepts a side.
//
// Whenever no process has anything left to do, the record and the Node must be as package oracle says. It knows who did
// what and which states were observed, and shares no code with the rule. Where a promise is not kept it must be one of the limits of
// docs/design.md, section 5.8, each of which is an [oracle.Excuse]; the output counts them.
//
// Separately, every history of one key up to a length is taken, every subset of its states, and every order in which these can be
// observed, each as often as one likes (orders.go). All must lead to the same.
//
// Package labels is the part about migrations and rules for labels.
//
// A counterexample is shrunk and printed as text, one step a line. It can be replayed:
//
//	go run ./test/simulation -replay FILE
package main
