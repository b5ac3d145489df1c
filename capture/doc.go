// Package capture keeps records current and restores what admission could not: Node event -> observe -> merge -> reconcile. reconcile.go is the
// loop; it reads from top to bottom. decide.go says what is done next: write the record, else change the Node, and lift the gate with
// that. The rule itself is [record.Merge]; docs/design.md, section 6, has the flow.
//
// Invariants:
//   - Records never shrink because something was not observed: not by a failed list, an empty cache or a missing Node.
//   - Every write is optimistic. A record is replaced only as it was read, a Node is changed only as it was observed (UID and
//     resourceVersion); the writer that lost reads live and decides again. So two replicas that act at once do no harm, and
//     none needs a Lease to act. The leader acts at once. Another replica acts on what has been due for 3 s while nobody made progress.
//   - A Node is changed only by what the live record says, never by the cache alone.
//   - The gate is lifted only when nothing is left to restore, and never added here.
//   - What nodekeep sets on a Node it lists in the Node's annotations, in the same request. Only what is listed there is removed again; what
//     a rule keeps off the Node (ensureAbsent) is listed by the request that removes it.
//   - No write without a change: heartbeats cost nothing. A deletion is the one exception: its moment is written down, so that
//     an older observation cannot be recorded over it.
//   - The history has every change of the record, once and in order, in the very write that makes it; it names who made the
//     change if the Node shows it, and never guesses.
//   - An item that another client keeps undoing waits longer each time before it is set again; a gate stays as long as one waits.
//   - The record of a live Node without a gate is written once a second at most where the Node changes all the time. First
//     records, registrations, gates and deletions never wait, and the last state is always recorded.
//   - ResourceSlices are read only while rules look at devices. What cannot be read of them is not known, and decides nothing.
//   - Only the leader reads inventories. What cannot be read, is stale or waits for an operator changes no label.
//   - No single object stops the process: a panic in the work on one is logged and counted, and the Node is tried again.
package capture
