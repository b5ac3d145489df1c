// Package ungate takes the gate out of a cluster, which has to come before nodekeep itself goes: nobody would lift it any more.
//
// [Ungating.Run] stops what puts the gate on new Nodes, waits until no API server does so any more, gives capture some time to
// complete the Nodes that are behind it, and then frees those that are left. At the end it deletes the guard policies, which are
// not in a namespace and would outlive nodekeep.
//
// Invariants:
//   - Gating stops before the first gate is lifted, and Nodes are looked at once more after the last: none is left behind.
//   - A Node is changed only as the object and in the state that was read, and nothing of it but the gate.
//   - What was done and what could not be done is said, Node by Node.
//   - Running it again does no harm.
//
// plan.go decides and knows no context, client or clock; the other files act. The patch of a Node is capture's.
package ungate
