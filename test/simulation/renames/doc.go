// Package renames is the part of the model checker that is about migrations: a label key is renamed, and every interleaving up to a bound is
// tried. It drives the product itself: webhook.Handler, and capture.Decide with the PATCH that it leads to.
//
//   - operators set and remove both keys, and delete the Node;
//   - the Node registers while the webhook has the newest record, an older one, or is down;
//   - captures lag, write a record or a PATCH a step, restart between any two, and follow phase new one after the other.
//
// What must be true is in package oracle, which shares no code with the product. No state that nodekeep wrote lacks both keys once the Node had
// one; the value is that of the last edit; in the end only the new key is left, also on a Node that returns.
package renames
