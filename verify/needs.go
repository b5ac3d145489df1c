package verify

import (
	"net/netip"
	"slices"
	"strings"
)

// Needs is what a check needs of the cluster. It decides which checks a cold start skips, and what the controller looks up for the worker. Warnings about
// profiles that no Node can pass follow from it, too.
type Needs struct {
	Resolves   []string // names that are resolved, and compared with the Services that they name
	EachServer bool     // each ready endpoint of the DNS Service resolves them
	Hosts      []string // names of hosts that are connected to
	Service    *Service // that the controller looks up and the worker connects to
	Token      bool     // of the worker's account
}

// Names returns all names that DNS must know.
func (n Needs) Names() []string { return slices.Concat(n.Resolves, n.Hosts) }

// services returns the Services, as NAMESPACE/NAME, without which the check cannot pass on any Node. The DNS Service of the cluster is dns.
func (n Needs) services(dns string) (services []string) {
	if len(n.Names()) > 0 {
		services = append(services, dns)
	}
	if n.Service != nil {
		services = append(services, n.Service.Name)
	}
	return append(services, servicesOf(n.Hosts)...)
}

// servicesOf returns the Services that names mean.
func servicesOf(names []string) (services []string) {
	for _, name := range names {
		if service, ok := ServiceOfName(name); ok {
			services = append(services, service)
		}
	}
	return services
}

// hostNames returns the name in HOST or HOST:PORT; none if it is an address.
func hostNames(host string) []string {
	if isAddress(host) {
		return nil
	}
	name, _, _ := strings.Cut(host, ":")
	return []string{name}
}

// isAddress reports whether HOST or HOST:PORT is an IP address, which no DNS server is asked for.
func isAddress(host string) bool {
	_, bare := netip.ParseAddr(strings.Trim(host, "[]"))
	_, withPort := netip.ParseAddrPort(host)
	return bare == nil || withPort == nil
}

// Services returns all Services, as NAMESPACE/NAME, that the checks of a profile ask or compare with, sorted.
func (p CompiledProfile) Services(dns string) (services []string) {
	for _, check := range p.Checks {
		needs := check.Needs()
		services = append(services, needs.services(dns)...)
		services = append(services, servicesOf(needs.Resolves)...)
	}
	slices.Sort(services)
	return slices.Compact(services)
}
