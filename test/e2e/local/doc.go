// Package local runs a cluster of one or two nodes with real kubelets, for tests: a control plane of package harness with scheduler and
// controller manager, the kubelets, and under each the container runtime of ./machine, which runs the nodekeep image in containers. Nothing is
// emulated but the machine: the kubelet registers its Node, mounts tokens, ConfigMaps and Secrets, asks probes, ends pods gracefully
// and starts them again; the API server calls the webhook through its Service.
//
// RunTests starts the test binary a second time in namespaces of its own (./machine isolate), in which the tests run as root and after
// which the kernel takes away every process, mount and network device. It needs root and Linux; ForTest skips where they are missing.
//
// What differs from a real cluster:
//   - There is no kube-proxy, which needs programs that not every computer has. The API server goes to the addresses in EndpointSlices itself
//     (--enable-aggregator-routing, as on clusters whose control plane has no pod network). What pods send to Services goes to a relay of bytes
//     at their addresses. A client is thus connected before its endpoint is, and an endpoint that is down ends the connection.
//   - DNS servers (StartDNS) and the API server's endpoint are programs next to the control plane, not pods.
//   - There is no CNI plugin and thus no NetworkPolicy in force, and no cgroup: limits are not applied.
//   - The kubelet serves logs to anybody, on a network on which nobody else is.
package local
