// Package brake keeps capture from removing or reverting items on many Nodes by their records, for whatever reason. A mass effect needs an
// operator's word. Package capture asks before each such change, and hands in how many Nodes live.
//
// Invariants:
//   - Within an hour, one Node in ten at most is corrected without an operator's word. No restart and no second replica begins the count anew.
//   - A Node counts before it is corrected. Of two replicas that count at once, one waits.
//   - A count that something else than nodekeep has written holds all corrections for an hour.
package brake
