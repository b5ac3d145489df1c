// Package store holds what nodekeep remembers: one [record.Record] per Node, kept in one ConfigMap per Node.
//
// Invariants:
//   - A ConfigMap is used only if it holds a record of the very Node that was asked for. Anything else is
//     [ErrUnreadable]: it is left as it is for an operator to look at, and never overwritten.
//   - Every write carries the version that was read (optimistic lock); the writer that lost gets [ErrConflict] and reads again.
//   - A record is removed only as it was read; an unreadable record only on an operator's request.
//   - A write touches only our own data key and labels; what operators or later versions add stays.
//     Fields of a record that this version does not know survive a rewrite.
//   - Memory does not hold the history of a record, and a record that was read without it cannot be written. A history gives
//     way before a record becomes too large.
//   - Records handed out are shared with the cache: never change their maps; make a new Record instead.
//   - Every informer lists and watches by [ListWatch]: its watches resume, and one that stalls is replaced. A watch that was accepted
//     is no progress; an event or a bookmark on it is.
//   - [Rules] are held until it was read that they are in force.
//   - [ConfigMaps.Get] makes no API call and costs the same however many records there are.
package store
