// Package nodestate is what was read of one Node, its object and its record, and what nodekeep makes of both. It says what capture does about the
// Node and records, what the policy keeps of it and why, what its registration would look like, and which record of another name it follows.
//
// Invariants:
//   - Pure: values in, values out; the linter holds this. The time is a value too.
//   - The product's own pure functions (packages policy, plan, capture) decide. They run on what was read.
package nodestate
