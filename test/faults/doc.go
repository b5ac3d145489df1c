// Package faults tests what nodekeep promises while something is broken. For each fault it tests registrations, scheduling and records, and how long
// recovery takes after the fault. The control plane is a real one. Both processes run as separate programs with their own ServiceAccounts, and Nodes
// are created with the identity of their kubelets.
//
// Invariants:
//   - Tests run one after another. Only those at the end that wait for a poll of nodekeep run in parallel. Each test uses Node names of its own. It
//     leaves the processes, the webhook configurations and the gate policy as it found them.
//   - Capture reaches the API server through a proxy in this process, and acts without a Lease. So a test can break the connection, or kill capture,
//     without waiting. Tests of the Lease restart capture with it. A test can put a proxy before the webhook, too.
//   - The policy is the shipped one with rules for labels that only tests of rules use.
//   - Tests log their measurements. They assert the promise, against a generous deadline.
package faults
