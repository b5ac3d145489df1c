// Package doctor runs `nodekeep doctor`, the built binary, against a real control plane with nodekeep installed on it: healthy, and
// broken in one way after another.
//
// No kubelet runs there, so what controllers would write of Deployments and pods is written by the tests. Each test breaks
// something, compares what is found with testdata/*.txt (in which names and times that differ from run to run are written alike;
// `go test ./test/cli/doctor -update` writes these anew), runs the remedies that are printed wherever they are whole commands, and
// leaves the installation healthy.
package doctor
