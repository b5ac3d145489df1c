// Package local runs a cluster of one or two nodes with real kubelets, for tests. It has a control plane of package harness with scheduler and
// controller manager, and the kubelets. Under each kubelet is the container runtime of ./machine, which runs the nodekeep image in containers. Only
// the machine is emulated. The kubelet registers its Node, mounts tokens, ConfigMaps and Secrets, asks probes, ends pods gracefully and starts them
// again. The API server calls the webhook through its Service.
//
// runTests starts the test binary a second time in namespaces of its own (./machine isolate). The tests run there as root. Afterwards the kernel
// removes every process, mount and network device. It needs root and Linux; without them forTest skips.
//
// Differences from a real cluster:
//   - There is no kube-proxy, which needs programs that not every computer has. The API server calls the addresses in EndpointSlices itself
//     (--enable-aggregator-routing, as on clusters whose control plane has no pod network). A relay of bytes at the addresses of Services receives
//     what pods send to them. A client is thus connected before its endpoint is, and an endpoint that is down ends the connection.
//   - DNS servers (startDNS) and the API server's endpoint are programs next to the control plane, not pods.
//   - There is no CNI plugin and thus no NetworkPolicy in force, and no cgroup: limits are not applied.
//   - The kubelet serves logs to any client, on a network that has no other clients.
package local
