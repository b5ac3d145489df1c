// Package migration shows on a real control plane, with scheduler and controller manager, that a label key is renamed on many Nodes while workloads
// select on it. The tests play the kubelets.
package migration
