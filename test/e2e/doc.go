// Package e2e is the end-to-end suite: it installs the chart on the cluster that KUBECONFIG names, lets Nodes register as kubelets
// would, breaks things, upgrades, uninstalls, and cleans up after itself, also after a failure or Ctrl-C. `make e2e` runs it on a
// cluster of yours, `make kind` on one that it makes, `make e2e-local` on one with a real kubelet that needs nothing but root and Linux.
//
// It has the build tag e2e, because it is for a cluster of the caller. The tests in the folder above are the product's own,
// on a control plane that they start; that is why this is a package of its own.
//
// Settings, all of them environment variables:
//
//	KUBECONFIG                 the cluster; a user who may do anything there and may impersonate kubelets
//	NODEKEEP_E2E_IMAGE         repository:tag that the cluster can run; the chart's own if empty
//	NODEKEEP_E2E_PULL_POLICY   of that image: IfNotPresent if empty
//	NODEKEEP_E2E_HELM_ARGS     further arguments of `helm upgrade`, split at spaces, which win: --set capture.replicas=1
//	NODEKEEP_E2E_HELM          the helm program; the one that `make helm` builds if empty
//	NODEKEEP_E2E_REPLACE       namespace/release of a nodekeep that is there and may be uninstalled first, records included
//
// Invariants:
//   - It does not run where there is a nodekeep, unless NODEKEEP_E2E_REPLACE names it.
//   - Nodes that are not its own are never labelled, tainted, deleted or registered by it. nodekeep does with them what nodekeep does: it
//     remembers them, and while it is installed those that register pass the gate.
//   - Its Nodes have no room for pods, so nobody's workload is ever bound to one. They report to be ready, as long as they live, so
//     that no cloud controller takes them for deleted machines.
//   - All that it makes carries its mark, and goes: Nodes, the release, the namespace with the records in it.
package e2e
