// Package faults holds the tests of what nodekeep promises while something is broken: for each fault, what happens to
// registrations, to scheduling and to records, and how long it takes until all is whole again once the fault is over. The
// control plane is a real one, both processes run as separate programs with their own ServiceAccounts, and Nodes are
// created with the identity of their kubelets.
//
// Invariants:
//   - Tests run one after another, and those in parallel at the end that only wait for what nodekeep looks at now and then. Each uses
//     Node names of its own and leaves the processes, the webhook configurations and the gate policy as it found them.
//   - Capture reaches the API server through a proxy in this process, and acts without a Lease, so that a test can break the way between
//     them, or kill capture, without waiting. Tests of the Lease restart capture with it.
//   - The policy is the shipped one with rules for labels that only tests of rules use.
//   - What a run measures is logged; what is asserted is the promise, against a generous deadline.
package faults
