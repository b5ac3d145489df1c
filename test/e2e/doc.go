// Package e2e is the end-to-end suite. It installs the chart on the cluster that KUBECONFIG names, and lets Nodes register as kubelets would. It
// breaks things, upgrades, and uninstalls. It cleans up after itself, also after a failure or Ctrl-C. `make e2e` runs it on a cluster of yours, `make
// kind` on one that it makes. `make e2e-local` runs it on one with a real kubelet that needs only root and Linux.
//
// It has the build tag e2e, because it runs on a cluster of the caller. The product's own tests, in the folder above, run on a control plane that
// they start. So it is a package of its own.
//
// Settings, all of them environment variables:
//
//	KUBECONFIG                 the cluster; a user who may do anything there and may impersonate kubelets.
//	NODEKEEP_E2E_IMAGE         repository:tag that the cluster can run; the chart's own if empty.
//	NODEKEEP_E2E_PULL_POLICY   of that image: IfNotPresent if empty.
//	NODEKEEP_E2E_HELM_ARGS     further arguments of `helm upgrade`, split at spaces, which win: --set log.level=debug.
//	NODEKEEP_E2E_HELM          the helm program; the one that `make helm` builds if empty.
//	NODEKEEP_E2E_REPLACE       namespace/release of an existing nodekeep that may be uninstalled first, records included.
//
// Invariants:
//   - It does not run on a cluster with a nodekeep, unless NODEKEEP_E2E_REPLACE names it.
//   - It never labels, taints, deletes or registers Nodes that are not its own. While nodekeep is installed, it records them, and those that register
//     pass the gate.
//   - Its Nodes have no room for pods, so no other workload is ever bound to one. They report to be ready, as long as they live, so that no cloud
//     controller takes them for deleted machines.
//   - All that it makes carries its mark, and is deleted: Nodes, the release, the namespace with the records in it.
package e2e
