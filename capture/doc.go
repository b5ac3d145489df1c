// Package capture keeps records current and completes what admission could not do: Node event -> plan -> act.
//
// Invariants:
//   - The UID tells intent from loss: a label or taint that is absent on the same Node object was removed; on a new object it was
//     lost, unless the object's stamp proves that it was there.
//   - Records never shrink because something was not seen: not by a failed list, an empty cache or a missing Node.
//   - A record is removed only as it was read, when the Node has been gone for longer than the policy keeps records, or left
//     nothing to keep; the API server has just said that there is no such Node; and no more of them at a time than a fraction of all.
//   - Every write is optimistic. A record is replaced only as it was read, a Node is changed only as it was seen (UID and
//     resourceVersion); whoever lost reads live and plans again. So two captures at once do no harm.
//   - A Node is changed only by what the live record says, never by the cache alone.
//   - The gate is lifted only when nothing is left to give, and never added here.
//   - A taint that a rule put on is ours only if the record says so. A record of the very state that it is put
//     on precedes it, and it is struck out only by a sight of a later state; nothing else is ever taken off a Node.
//   - No write without a change: heartbeats cost nothing. A deletion is the one exception: its moment is written down, so that
//     an older sight cannot be recorded over it.
//   - The history tells every change of what is remembered, once and in order, in the very write that makes it; who made the
//     change is told where the Node shows it, and nobody is guessed.
//   - An item that another client keeps undoing waits longer each time before it is set again; a gate stays as long as one waits.
//   - The record of a live Node without a gate is written once a second at most where the Node changes all the time. First
//     records, registrations, gates and deletions never wait, and the last state is always recorded.
//   - The plan, and which records are due, are pure; the linter holds this.
package capture
