// Package view makes what the operator's commands show: rows, differences, explanations, plans.
//
// Invariants:
//   - Pure: values in, values out; the linter holds this. The time is a value too.
//   - What nodekeep does or would do is decided by the product's own pure functions, and by packages [nodekeep.dev/nodekeep/cli/nodestate] and
//     [nodekeep.dev/nodekeep/cli/impact]. This package does not decide it a second time.
//   - A view is a struct with JSON tags, for programs. It makes the tables of the text from its own fields.
package view
