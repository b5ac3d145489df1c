// Package bed is what the benchmarks run on. It has a control plane of its own with nodekeep's manifests, and the two processes as programs with
// their ServiceAccounts. Kubelets register Nodes of some 20 KiB, records may exist beforehand, and there are webhooks to compare with.
//
// Invariants:
//   - Variants differ only in what is compared. Every webhook has the same rule and timeout, the loopback address and a process of its own. None of
//     them runs while another one is measured.
//   - A variant is measured only once a dry run has shown that the API server uses it.
//   - Registrations are made as the Node's kubelet, so that the Node authorizer and NodeRestriction judge them.
package bed
