// Package history keeps the changes of a record: which labels and taints changed, when, and by whom. It is pure.
//
// Invariants:
//   - No decision depends on a history. A damaged history makes no record unreadable: entries that nodekeep cannot have written are left
//     out.
//   - The write that changes the record also makes the entry. So each change has exactly one entry.
//   - It is bounded, and is shortened before a record becomes too large.
package history
