// Package bed is what the benchmarks run on: a control plane of its own with nodekeep's manifests, the two processes as
// programs with their ServiceAccounts, kubelets that register Nodes of some 20 KiB, records that are there beforehand, and
// webhooks to compare with.
//
// Invariants:
//   - Variants differ in nothing but what is compared: the same rule, timeout and loopback address for every webhook, all
//     of them in processes of their own, none of them there while another one is measured.
//   - A variant is measured only once a dry run has shown that the API server goes by it.
//   - Registrations are made as the Node's kubelet, so that the Node authorizer and NodeRestriction judge them.
package bed
