package verify

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// needs are the Services, as NAMESPACE/NAME, without which a check cannot pass on any Node. The DNS Service of the cluster is dns.
func (c Check) needs(dns string) (services []string) {
	switch {
	case c.DNS != nil:
		return []string{dns}
	case c.Service != nil:
		return []string{c.Service.Name}
	case c.TCP != nil:
		return hostNeeds(c.TCP.Address, dns)
	case c.HTTP != nil:
		if target, err := url.Parse(c.HTTP.URL); err == nil {
			return hostNeeds(target.Host, dns)
		}
	}
	return nil
}

// hostNeeds are the Services that HOST or HOST:PORT needs. A name needs the DNS Service, and the Service that it names.
func hostNeeds(host, dns string) []string {
	if IsAddress(host) {
		return nil
	}
	name, _, _ := strings.Cut(host, ":")
	if service, ok := ServiceOfName(name); ok {
		return []string{dns, service}
	}
	return []string{dns}
}

// IsAddress reports whether HOST or HOST:PORT is an IP address, which no DNS server is asked for.
func IsAddress(host string) bool {
	_, bare := netip.ParseAddr(strings.Trim(host, "[]"))
	_, withPort := netip.ParseAddrPort(host)
	return bare == nil || withPort == nil
}

// Services are all Services, as NAMESPACE/NAME, that the checks of a profile ask or compare with, sorted.
func (p CompiledProfile) Services(dns string) (services []string) {
	for _, check := range p.Checks {
		services = append(services, check.needs(dns)...)
		if check.DNS == nil {
			continue
		}
		for _, name := range check.DNS.Names {
			if service, ok := ServiceOfName(name); ok {
				services = append(services, service)
			}
		}
	}
	slices.Sort(services)
	return slices.Compact(services)
}
