// Package harness is what tests and the demo run nodekeep on: a real control plane on loopback (etcd, kube-apiserver with the Node
// authorizer, RBAC and NodeRestriction on, and, when asked for, kube-scheduler and kube-controller-manager), nodekeep installed on it
// (the very file that users apply, both processes as programs of their own), the Nodes that kubelets send, and Helm. Package
// [nodekeep.dev/nodekeep/test/harness/proxy] stands between a process and the API server and breaks what the test asks for.
//
// Invariants:
//   - Only loopback addresses are listened on, each on a port that was free a moment before. A port lost in between costs one more
//     start, not a failed one.
//   - A process is signalled only through a handle that was compared with its start time, never by name: a reused process id is not
//     ours to kill.
//   - No process outlives its owner. Stop ends them in reverse order of start, and on Linux the kernel kills them when the owner is
//     killed. Options.Detach asks for the opposite: then the pid file in Dir is the only owner.
//   - Every identity is one that the API server itself authenticates (certificate or token), so what a test may do is what RBAC and
//     NodeRestriction allow. Nothing of nodekeep ever runs as an admin.
//   - The only thing that differs from a real installation is the webhook's clientConfig: a loopback URL in place of the Service,
//     because no pod network exists. The webhook writes the caBundle itself.
//   - Each process logs into Dir/logs; a test that fails leaves Dir behind and names the place.
//   - Dir is either empty or one of ours before anything in it is replaced.
//
// It is no place for secrets: etcd speaks plain HTTP on loopback, and Dir holds the key of the certificate authority.
package harness
