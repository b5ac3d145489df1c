package check

import (
	"net"
	"slices"
	"strconv"

	"nodekeep.dev/nodekeep/verify"
)

// maxAddresses is how many addresses of one Service, or DNS servers, a check asks at most.
const maxAddresses = 32

// Service connects to each ClusterIP of a Service, and to the endpoints on other Nodes that the controller has chosen. The controller may know fewer
// endpoints than the check wants. A Service with a single endpoint must not keep the Node of that endpoint closed.
func (t try) Service(asked *verify.Service) error {
	target := t.task.Services[asked.Target()]
	var addresses []string
	for _, ip := range clusterIPs(target) {
		addresses = append(addresses, net.JoinHostPort(ip, strconv.Itoa(asked.Port)))
	}
	addresses = append(addresses, target.Endpoints[:min(len(target.Endpoints), asked.Endpoints)]...)
	if len(addresses) == 0 {
		return failf(verify.ReasonNoService, "Service %s does not exist, or has neither a ClusterIP nor an endpoint to ask", asked.Name)
	}
	return t.first(addresses[:min(len(addresses), maxAddresses)], "addresses", t.pod.tcp)
}

// clusterIPs returns those of a Service; a headless one has none.
func clusterIPs(target verify.Target) []string {
	return slices.DeleteFunc(slices.Clone(target.ClusterIPs), func(ip string) bool { return net.ParseIP(ip) == nil })
}
