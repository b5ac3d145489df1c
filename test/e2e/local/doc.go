// Package local runs a cluster of one to three nodes with real kubelets, for tests. It has a control plane of package harness with scheduler and
// controller manager, and the kubelets. Under each kubelet is a containerd with runc and CNI plugins, of the computer's distribution (`make
// containerd`). It runs the nodekeep image in containers. The kubelet registers its Node, mounts tokens, ConfigMaps and Secrets, asks probes, ends pods
// gracefully and starts them again. The API server calls the webhook through its Service.
//
// runTests starts the test binary a second time in namespaces and a cgroup of its own (./machine isolate). The tests run there as root. Afterwards
// the kernel removes every process, mount and network device. It needs root and Linux; without them, or without containerd, forTest skips. All nodes
// share this machine, its host name and its network. They differ by their address, the range of their pods, and the cgroup of their containers:
// stopContainers ends these at once.
//
// Differences from a real cluster:
//   - There is no kube-proxy, which needs programs that not every computer has. The API server calls the addresses in EndpointSlices itself
//     (--enable-aggregator-routing, as on clusters whose control plane has no pod network). A relay of bytes at the addresses of Services receives
//     what pods send to them. A client is thus connected before its endpoint is, and an endpoint that is down ends the connection.
//   - DNS servers (startDNS) and the API server's endpoint are programs next to the control plane, not pods.
//   - The pod network (CNI plugin ptp) knows no NetworkPolicy, and the machine's cgroups have no controllers: limits are not applied.
//   - The kubelet serves logs to any client, on a network that has no other clients.
package local
