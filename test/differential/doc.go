// Package differential compares nodekeep on a real control plane with a model of what the operator last wanted. A seeded script labels, deletes and
// registers many Nodes while webhook and capture start and stop. After every round everything is up and at rest. Then each Node, or the record of a
// deleted Node, must match the model.
//
// Package test/random says which environment variables change a run of 100 Nodes and 12 rounds. These do too:
//
//	NODEKEEP_SLOW_CAPTURE=0  capture is up or down; without it, capture is also paused at times: up, but late.
//	NODEKEEP_SOAK            how long TestALongTimeOfRandomFaults runs, 30m for one; without it, it does not run.
//
// A seed fixes the script, not how operations and processes interleave. A failure that depends on a race may need a few replays.
//
// Invariants:
//   - The model shares no code with the product: no file here imports policy, store, webhook or capture. It reads records and Nodes with structs of
//     its own.
//   - The model is strict by default: one answer for each label. Only limits of docs/design.md, section 5.8, widen it, each for its own label and
//     moment. Each use of a limit is counted and reported. The state after that is the only answer again.
//   - An edit is what changes the Node. Removing a missing label, or setting the existing value, is no edit: the API server does not show it.
package differential
