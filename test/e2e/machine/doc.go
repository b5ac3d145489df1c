// Machine is what a real kubelet needs in a test: a private view of this computer, and a container runtime.
//
//   - machine isolate [--addresses ...] PROGRAM [ARGUMENT...]: run a program on a machine of its own
//   - machine runtime --folder ... --socket ... --network ...: become containerd, for one kubelet
//   - machine image --socket ... --name ... [--archive ...]: give a containerd an image, or take it away
//   - machine lose --network ... [RANGE...]: drop what a kubelet's pods send to these addresses
//   - machine dns --listen ... --zone ...: answer for the names that a file has
//   - machine devices --resource ... --count ...: be a device plugin: offer so many devices of a resource to the kubelet
//
// isolate gives the program namespaces of its own: mounts, network, process ids, host name, System V IPC, cgroups. There it may mount, add network
// devices and start programs as root. When it ends, or is killed, the kernel removes all of that. Some changes of a kubelet would affect the whole
// computer: the kernel's settings, /var/lib/kubelet, /var/log. These are hidden from it or read-only.
//
// runtime configures containerd, runc and the CNI plugins ptp and host-local of this computer's distribution. All that containerd writes is in one
// folder, in memory. All that it starts is in one cgroup, named after that folder: what kills the processes of the cgroup switches the node off. A
// containerd that starts again with the same folder finds what it had, as after a boot.
//
// lose is a rule of routing: it holds at once, for the pods that run and those that start, and until lose is called again.
//
// dns answers for the names in a file. The file may also make it mute, or make it fail.
//
// devices registers once, with the kubelet that runs. Its devices do not exist: no pod is given one.
//
// Invariants:
//   - Nothing outside of the namespaces changes, but for a cgroup below that of this process. isolate removes it; if isolate is killed, the next one does.
//   - No process outlives the machine: its first process asks the kernel for SIGKILL at its parent's death.
//
// Limits of CPU and memory, OOM scores and AppArmor profiles are not applied: the cgroups' controllers are not ours to change. There are no pulls: an
// image is given or it does not exist.
package main
