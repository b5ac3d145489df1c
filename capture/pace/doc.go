// Package pace knows for how long what is due has to wait, by what was done before. It works on values, knows no Node but by its name or UID,
// and is in memory only.
//
// Invariants:
//   - Nothing is dropped: what waits is due later. A restart forgets all waits.
//   - Memory is bounded, however many items change.
package pace
