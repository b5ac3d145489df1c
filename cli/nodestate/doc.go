// Package nodestate is what was read of one Node, its object and its record, and what nodekeep makes of both. It decides what capture does about the
// Node and records, what the policy keeps of it and why, and what its registration would look like. It also decides which record of another name it
// follows, how it differs from its record, and what becomes of it when an operator forgets items or rolls it back.
//
// Invariants:
//   - Pure: values in, values out; the linter holds this. The time is a value too.
//   - The product's own pure functions (packages policy, plan, capture) decide what nodekeep does or would do. They run on what was read. This package
//     does not decide it a second time.
package nodestate
