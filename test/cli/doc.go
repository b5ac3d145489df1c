// Package cli runs the operator's commands as they are shipped. It runs the built binary against a real control plane with nodekeep installed on it.
//
// Their tables are compared with testdata/*.txt, in which uids and ages have a fixed form. `go test ./test/cli -update` writes these files again. All
// examples of the help texts, and docs/classification.md, are run.
package cli
