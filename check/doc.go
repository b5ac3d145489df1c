// Package check is the worker of verification. It runs in a Pod on the Node that is verified, and asks the checks of a [verify.Task]. Each kind
// has a file. One that [verify.Asker] has and this package lacks does not compile. docs/design.md has the design.
//
// Invariants:
//   - A check passes only if its question was asked and answered as it must be. Everything else is a failure with a [verify.Reason].
//   - Whatever a server does, a run ends with the timeout of its task. A connection reads at most [maxRead] bytes, redirects are not followed, no
//     proxy is used. No server's answer decides what is asked next.
//   - A failure that ends before the timeout is retried: kube-proxy and the network plugin converge after the Node is Ready.
package check
