// Package doctor judges an installation of nodekeep by what was read of it.
//
// A check is a question that an operator would ask, and a pure function from what was read to its answer: right, not right,
// or not known. Who reads is package [nodekeep.dev/nodekeep/cli].
//
// Invariants:
//   - Pure: values in, values out; the linter holds this. The time is a value, and so is why something could not be read.
//   - What is not known is never called right. A check that lacks a part of what it needs says what it lacks.
//   - Every finding names its object, says what comes of it, and how to put it right.
//   - What is expected of an object, and which rights the processes need, is what the manifests hold; see [Shipped]. Package manifests compares.
//   - Nothing grows with the number of Nodes and records: of many the first are named and all are counted.
package doctor
