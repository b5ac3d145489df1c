// Package verification shows on a real control plane that a Node takes workloads only after it was checked. Its scheduler and controllers run. The
// tests act as kubelets, with the identities of kubelets: they report the results of worker Pods. Real kubelets and real checks are in
// test/e2e/local.
package verification
