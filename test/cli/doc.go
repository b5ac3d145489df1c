// Package cli runs the operator's commands as they are shipped, the built binary, against a real control plane with nodekeep
// installed on it.
//
// The tables they print are compared with testdata/*.txt, in which uids and ages are written alike; `go test ./test/cli
// -update` writes these anew. The examples of docs/cli.md are all run,
// and so is docs/classification.md.
package cli
