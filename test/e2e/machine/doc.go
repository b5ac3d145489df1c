// Machine is what a real kubelet needs around it in a test: a private view of this computer, and a container runtime.
//
//	machine isolate [--addresses ...] PROGRAM [ARGUMENT...]    run a program on a machine of its own
//	machine runtime --socket ... --image ...      serve the CRI, the interface between kubelets and container runtimes
//	machine dns --listen ... --zone ...           answer for the names that a file has
//	machine devices --resource ... --count ...    be a device plugin: offer so many devices of a resource to the kubelet
//
// isolate gives the program namespaces of its own: mounts, network, process ids, host name, System V IPC. There it may mount, add
// network devices and start what it likes as root; when it ends, or is killed, the kernel takes all of that away. What a kubelet
// would change for the whole computer (the kernel's settings, cgroups, /var/lib/kubelet, /var/log) is hidden from it or read-only.
//
// runtime runs one image, an OCI layout, in containers as the kubelet asks for them: a network namespace and address for each pod that
// is not on the host network; for each container namespaces for mounts and process ids, an overlay over the image as its root (read-only
// where the pod says so), the kubelet's mounts, user and groups, capabilities, no-new-privileges, masked paths; logs in the CRI's format;
// SIGTERM, a time, SIGKILL.
//
// What the file --faults names is broken in pods that start later: addresses that they cannot reach, and an image that is not there.
//
// dns answers for the names in a file, which may also tell it to be mute or to fail.
//
// devices registers once, with the kubelet that runs. Its devices do not exist: no pod is given one.
//
// Invariants:
//   - Nothing outside of the namespaces changes, but for the folder that --state names.
//   - No process outlives its parent: each asks the kernel for SIGKILL at its parent's death.
//   - What a pod asks for and this runtime cannot do is an error, except what is listed here.
//
// Accepted and not applied: limits of CPU and memory, and OOM scores (the cgroups of this computer are not ours to change), seccomp and
// AppArmor profiles. exec, attach and port forwarding are not served. There are no pulls: the one image is there or is not.
package main
