// Package history keeps the changes of a record: which labels and taints changed, when, and by whom. It is pure.
//
// Invariants:
//   - Nothing is decided by a history. One that is spoilt makes no record unreadable: entries that nodekeep cannot have written
//     are left out.
//   - An entry is made by the very write that changes the record, so no change has two entries and none has no entry.
//   - It is bounded, and gives way before a record becomes too large.
package history
