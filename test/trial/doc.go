// Package trial is an operator's trial of nodekeep. It has the jobs that an operator does, as commands and expected sentences (jobs.yaml). It also has
// a checker of what the commands say.
//
// The checker reads what the API server has before a command and after it. Each statement of the command must be true of one of the two states.
// The checker is not built on the commands' own decisions. It reads Nodes, records, Pods, Leases and the NodePolicy, and compares them with the text
// that an operator reads.
//
// The tests here run the commands in situations. All is well, one process is down, or a policy was just changed. Or a policy is invalid, or there is an
// emergency. The jobs run on real kubelets: `make e2e-local`.
package trial
