// Package integration holds the tests of nodekeep as a cluster sees it: a real etcd and kube-apiserver with NodeRestriction, the
// shipped manifests, both processes as separate programs with their own ServiceAccounts, and Nodes created with the
// identity of their kubelets.
package integration
