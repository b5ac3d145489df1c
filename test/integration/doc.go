// Package integration tests nodekeep as a cluster sees it. It uses a real etcd and kube-apiserver with NodeRestriction, and the shipped manifests.
// Both processes run as separate programs with their own ServiceAccounts. Nodes are created with the identity of their kubelets.
package integration
