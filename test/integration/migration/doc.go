// Package migration tests that a label key is renamed on many Nodes while workloads select on it. It runs on a real control plane, with scheduler and
// controller manager. The tests act as kubelets.
package migration
