// Machine is what a real kubelet needs in a test: a private view of this computer, and a container runtime.
//
//   - machine isolate [--addresses ...] PROGRAM [ARGUMENT...]: run a program on a machine of its own
//   - machine runtime --socket ... --image ...: serve the CRI, the interface between kubelets and container runtimes
//   - machine dns --listen ... --zone ...: answer for the names that a file has
//   - machine devices --resource ... --count ...: be a device plugin: offer so many devices of a resource to the kubelet
//
// isolate gives the program namespaces of its own: mounts, network, process ids, host name, System V IPC. There it may mount, add network devices and
// start programs as root. When it ends, or is killed, the kernel removes all of that. Some changes of a kubelet would affect the whole computer: the
// kernel's settings, cgroups, /var/lib/kubelet, /var/log. These are hidden from it or read-only.
//
// runtime runs one image, an OCI layout, in containers as the kubelet asks for them:
//   - Each pod that is not on the host network has a network namespace and an address.
//   - Each container has namespaces for mounts and process ids. Its root is an overlay over the image, read-only if the pod asks for that. It has the
//     kubelet's mounts, user and groups, capabilities, no-new-privileges, and masked paths.
//   - Logs are in the CRI's format. A container ends by SIGTERM, a time, SIGKILL.
//
// The file --faults names what is broken in pods that start later. These are addresses that they cannot reach, and an image that does not exist.
//
// dns answers for the names in a file. The file may also make it mute, or make it fail.
//
// devices registers once, with the kubelet that runs. Its devices do not exist: no pod is given one.
//
// Invariants:
//   - Nothing outside of the namespaces changes, except the folder that --state names.
//   - No process outlives its parent: each asks the kernel for SIGKILL at its parent's death.
//   - A request of a pod that this runtime cannot fulfil is an error, except those that are listed here.
//
// Some requests are accepted and not applied: limits of CPU and memory, OOM scores, seccomp and AppArmor profiles. The cgroups of this computer are
// not ours to change. Kubelets probe by commands in a container, which run as its user, with no other limits. `kubectl exec`,
// attach and port forwarding are not served. There are no pulls: the one image exists or it does not.
package main
