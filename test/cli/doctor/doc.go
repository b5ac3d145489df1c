// Package doctor runs `nodekeep doctor`, the built binary, against a real control plane with nodekeep installed on it. The installation is healthy,
// then broken in one way after another.
//
// No kubelet runs there, so the tests write the status of Deployments and pods that controllers would write. Each test breaks something, compares the
// findings with testdata/*.txt, and runs the printed remedies that are whole commands. It leaves the installation healthy. In the files, names and
// times that differ from run to run have a fixed form; `go test ./test/cli/doctor -update` writes the files again.
package doctor
