// Package gc removes the records of deleted Nodes after the policy's retention.
//
// Invariants:
//   - A record is removed only as it was read, when its Node has been gone for longer than the policy keeps records, or left
//     nothing to keep; the API server has just said that there is no such Node; and no more of them at a time than a fraction of all.
//   - Only the process that leads sweeps, and nobody works on a Node meanwhile.
//   - A record that is quarantined, or of whose Node no end was observed, is never removed.
//   - An error of the API server ends a sweep; one record that panics does not.
package gc
