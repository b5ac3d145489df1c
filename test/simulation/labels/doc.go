// Package labels is the part of the model checker for labels that nodekeep itself sets. A label key is renamed, or a rule sets or removes a label.
// Every interleaving up to a bound is tried. It drives the product itself: webhook.Handler, and capture.Decide with the resulting PATCH.
//
//   - Clients set and remove the labels, also back to what nodekeep has set, and delete the Node.
//   - The Node registers while the webhook has the newest record, an older one, or is down.
//   - Captures lag, write a record or a PATCH a step, and restart between any two. They follow the next policy one after the other: phase new of the
//     migration, or the policy without the rule.
//
// Package oracle, which shares no code with the product, defines what must be true.
//
// Of a rename: once the Node had a key, no state that nodekeep wrote lacks both. The value is that of the last edit. In the end only the new key is
// left, also on a Node that registers again.
//
// Of a rule: the Node shows what the rule sets, by its precedence. Without the rule, it shows a client's last decision.
package labels
