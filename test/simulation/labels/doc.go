// Package labels is the part of the model checker that is about labels which nodekeep itself sets: a label key is renamed, or a rule sets or
// removes a label. Every interleaving up to a bound is tried. It drives the product itself: webhook.Handler, and capture.Decide with the PATCH
// that it leads to.
//
//   - clients set and remove the labels, also back to what nodekeep has set, and delete the Node;
//   - the Node registers while the webhook has the newest record, an older one, or is down;
//   - captures lag, write a record or a PATCH a step, restart between any two, and follow the next policy one after the other: phase new of the
//     migration, or the policy without the rule.
//
// What must be true is in package oracle, which shares no code with the product. Of a rename: no state that nodekeep wrote lacks both keys once
// the Node had one; the value is that of the last edit; in the end only the new key is left, also on a Node that returns. Of a rule: the Node
// shows what the rule says, by its precedence, and without the rule what a client decided last.
package labels
