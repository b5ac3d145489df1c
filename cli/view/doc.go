// Package view is what the operator's commands show and decide: rows, differences, explanations, plans.
//
// Invariants:
//   - Pure: values in, values out; the linter holds this. The time is a value too.
//   - What nodekeep does or would do comes from the product's own pure functions (packages policy, webhook, capture), which
//     run on what was read. Nothing of it is decided here a second time.
//   - A view is a struct with JSON tags, for programs, and makes the tables of the text from its own fields.
package view
