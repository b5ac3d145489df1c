// Package gc removes the records of deleted Nodes after the policy's retention.
//
// Invariants:
//   - A record is removed only as it was read. Its Node was deleted longer ago than the policy keeps records, or the record holds nothing.
//   - Directly before the removal, the API server has answered that there is no such Node.
//   - One sweep removes at most a fraction of all records.
//   - Only the leader sweeps, and it works on no Node while it collects that Node's record.
//   - A quarantined record is never removed. Nor is a record without deletedAt: no process observed the end of its Node.
//   - An error of the API server ends a sweep; a record that panics does not.
package gc
