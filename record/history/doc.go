// Package history tells how a record came to be what it is: which labels and taints changed, when, and by whom. It is pure.
//
// Invariants:
//   - Nothing is decided by a history. One that is spoilt makes no record unreadable: entries that nodekeep cannot have written
//     are left out.
//   - An entry is made by the very write that changes the record, so no change is told twice and none is left out.
//   - It is bounded, and gives way before a record becomes too large.
package history
