// Package install puts nodekeep onto a control plane of package cluster, for tests and the demo: it applies the very
// file that people apply and runs the two processes as separate programs with the ServiceAccount identities that it grants.
//
// Invariants:
//   - Nothing of nodekeep ever runs as an admin.
//   - The only thing that differs from a real installation is the webhook's clientConfig: a loopback URL in place of the
//     Service, because no pod network exists. The caBundle is written by the webhook itself.
//   - The programs are stopped by process id.
package install
