// Package trial is an operator's trial of nodekeep. It has the jobs that an operator does, as commands and expected sentences (jobs.yaml), and a
// checker of what the commands say.
//
// The checker reads what the API server has before a command and after it. Each statement of the command must be true of one of the two states.
// The checker is not built on the commands' own decisions. It reads Nodes, records, Pods, Leases and the NodePolicy, and compares them with the text
// that an operator reads.
//
// The tests here run the commands in situations: all is well, one process is down, a policy was just changed, a policy is invalid, an emergency. The
// jobs run on real kubelets: `make e2e-local`.
package trial
