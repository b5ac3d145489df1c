// Package verification shows on a real control plane, with its scheduler and controllers, that a Node takes workloads only after it was checked.
// Kubelets are played by the tests, with the identities of kubelets: they report what a worker Pod came to. Real kubelets and real checks are
// the matter of test/e2e/local.
package verification
