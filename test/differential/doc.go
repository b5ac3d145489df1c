// Package differential compares nodekeep on a real control plane with a model of what the operator last wanted. A seeded
// script labels, deletes and registers many Nodes while webhook and capture come and go; after every round, with
// everything up and at rest, each Node, or the record of a deleted Node, must be what the model says.
//
//	NODEKEEP_SEED            replays a script; without it each run makes another one, and prints its seed
//	NODEKEEP_NODES           how many Nodes take part (100)
//	NODEKEEP_ROUNDS          how many rounds they go through (12)
//	NODEKEEP_SLOW_CAPTURE=0  capture is up or down; without it, it also stands still at times: up, but late
//	NODEKEEP_SOAK            how long TestALongTimeOfRandomFaults goes on, 30m for one; without it, it does not run
//
// A seed fixes the script, not how operations and processes interleave: a failure that hangs on a race may need a few
// replays.
//
// Invariants:
//   - The model shares no code with the product: no file here imports policy, store, webhook or capture. What it reads of
//     records and Nodes it reads with structs of its own.
//   - The model is strict by default: one answer for each label. Only limits of docs/design.md, section 5.8, widen it, each for
//     the label and the moment that it is about, and each use of one is counted and reported. What is there afterwards
//     is the only answer again.
//   - An edit is what changes the Node. Removing a label that is not there, or setting the value that is there already, is
//     none: the API server does not show it.
package differential
