// Package harness is what tests and the demo run nodekeep on. It has a real control plane on loopback. This is etcd and kube-apiserver, with the Node
// authorizer, RBAC and NodeRestriction on; kube-scheduler and kube-controller-manager are options.
//
// The very file that users apply installs nodekeep on it, and both processes run as programs of their own. The package also has the Nodes that
// kubelets send, and Helm. Package [nodekeep.dev/nodekeep/test/harness/proxy] stands between a process and the API server and breaks what the test
// asks for.
//
// Invariants:
//   - It listens only on loopback addresses, each on a port that was free a moment before. A port lost in between costs one more start, not a failed
//     one.
//   - A process is signalled only through a handle that was compared with its start time, never by name. A reused process id is not ours to kill.
//   - No process outlives its owner. Stop ends them in reverse order of start, and on Linux the kernel kills them when the owner is killed.
//     Options.Detach asks for the opposite: then the pid file in Dir is the only owner.
//   - The API server itself authenticates every identity (certificate or token). So a test may do what RBAC and NodeRestriction allow. Nothing of
//     nodekeep ever runs as an admin.
//   - Only the webhook's clientConfig differs from a real installation. It has a loopback URL in place of the Service, because no pod network exists.
//     The webhook writes the caBundle itself.
//   - Each process logs into Dir/logs; a test that fails leaves Dir behind and names the place.
//   - Dir is either empty or one of ours before anything in it is replaced.
//
// It is no place for secrets. Dir holds the key of the certificate authority, and etcd speaks plain HTTP on loopback.
package harness
