// Package leader elects one of several processes, by a Lease.
//
// Invariants:
//   - Two leaders for a moment must do no harm: each leader writes optimistically. The election is there so that work is not done twice.
//   - A process that loses the Lease ends, and starts again as a standby.
package leader
