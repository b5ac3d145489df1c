// Package rollout puts the rules of a policy in force, or holds them. It notes which are in force, keeps the policy that was accepted last, and
// counts how far migrations are. Package capture asks whether rules are held, and hands in what they would change.
//
// Invariants:
//   - Rules that are held only add labels. Nothing is released before it is known what it changes.
//   - Only the leader puts rules in force. Another replica follows the note that the leader writes.
//   - An acceptance counts once.
//   - A process that starts while no NodePolicy can be used finds the policy that was accepted last.
package rollout
