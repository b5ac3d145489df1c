// Package record holds the rule that decides what nodekeep remembers of a Node: [Merge]. It is a leaf: it imports nothing of nodekeep, has
// no clock, and does no I/O. Every process that writes a record, restores a Node or explains one uses it, so they cannot disagree.
//
// A [Record] belongs to the name of a Node. Objects of that name come one after the other, each with its own UID. A process that reads the
// state of such an object builds an [Observation] and merges it. A record keeps one [Entry] for each label, taint and annotation, by key
// (see [TaintKey] and [AnnotationKey]). An entry has the value, or says that a client removed it. It also has the resourceVersion of the
// observation that decided this.
//
// docs/design.md, section 5, describes the rule and the limits that no process can avoid.
//
// Invariants:
//   - The result of merging a set of observations depends neither on their order nor on how often each is merged. So slow, restarted and
//     concurrent processes do no harm. [Merge] lists the three exceptions.
//   - Merge never changes its arguments, and a Record may be shared: all slices and maps in it are read only.
//   - A value that nodekeep itself set on a Node is no decision of a client. The [Stamp] on the Node distinguishes them.
//   - The policy does not erase: a key that it no longer selects keeps its entry. A client's removal or an operator's command ends an
//     entry. So does a component that takes the label over, or an annotation that is too large to keep.
//   - A record that [Decode] accepts cannot make Merge, [Missing], [Stale] or [WorthWriting] panic, whatever its bytes. Nor can it keep them from
//     recording what a Node shows.
//
// The tests in test/simulation check the first invariant. They also check the outcome of every interleaving of clients, webhook and
// captures up to a bound (make model).
package record
