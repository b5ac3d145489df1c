// Package capture keeps records current and restores what admission could not: Node event -> observe -> merge -> plan -> write. The loop is in
// reconcile.go. It reads from top to bottom, and so do the files that it leads to, in this order: observations.go, published.go, decide.go (pure),
// holds.go, act.go, patch.go (pure), report.go. A step writes the record, else it changes the Node and lifts the gate.
// The rule itself is [record.Merge]; docs/design.md, section 6, has the flow.
//
// Invariants:
//   - Records never shrink because something was not observed: not by a failed list, an empty cache or a missing Node.
//   - Every write is optimistic. A record is replaced only as it was read. A Node is changed only as it was observed (UID and
//     resourceVersion). The writer that lost reads live and decides again.
//   - So two replicas that act at the same time do no harm, and none needs a Lease to act. The leader acts immediately. Another replica acts on
//     work that has been due for 3 s without progress.
//   - A Node is changed only by what the live record says, never by the cache alone.
//   - The gate is lifted only when nothing is left to restore, and never added here.
//   - What nodekeep sets on a Node it lists in the Node's annotations, in the same request. It removes only items that are listed there.
//     Items that a rule keeps off the Node (ensureAbsent) are listed by the request that removes them.
//   - No write without a change: heartbeats cost nothing. A deletion is the one exception. Its time is written down, so that an older
//     observation cannot be recorded over it.
//   - The history has every change of the record, once and in order. The write that makes the change also adds it. It names the client that
//     made the change if the Node shows it, and never guesses.
//   - An item that another client keeps undoing waits longer each time before it is set again. A gate stays as long as such an item waits.
//   - If a live Node without a gate changes all the time, its record is written at most once a second. First records, registrations, gates
//     and deletions never wait, and the last state is always recorded.
//   - ResourceSlices and NodeFeature objects are read only while rules use them. Those that cannot be read are not known, and decide nothing.
//   - Only the leader reads inventories. A source that cannot be read, is stale or waits for an operator changes no label.
//   - No single object stops the process. A panic in the work on one is logged and counted, and the Node is tried again.
package capture
