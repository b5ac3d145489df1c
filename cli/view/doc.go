// Package view is what the operator's commands show: rows, differences, explanations, plans.
//
// Invariants:
//   - Pure: values in, values out; the linter holds this. The time is a value too.
//   - The product's own pure functions (packages policy, webhook, capture) decide what nodekeep does or would do. They run on what was read. This
//     package does not decide it a second time.
//   - A view is a struct with JSON tags, for programs. It makes the tables of the text from its own fields.
package view
