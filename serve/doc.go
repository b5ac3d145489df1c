// Package serve answers HTTP on listeners that callers cannot exhaust.
//
// Invariants:
//   - A listener keeps a bounded number of connections. Beyond it, the address with the most of them loses one.
//   - A request has a bounded time, from its first byte to the last byte of its answer.
//   - Requests that cost much run few at a time. The others wait, and none of them waits for more than a few of another address.
package serve
