package certs

import (
	"crypto/x509"
	"net/netip"
	"slices"
	"strings"
)

// servingNames lists the DNS names and IP addresses that a serving certificate must cover. These are all names of the Service that an API
// server or an operator may use, and the extra names. IP addresses and case are in one canonical form, and no name occurs twice.
func servingNames(service, namespace string, extra []string) []string {
	base := service + "." + namespace
	all := []string{base + ".svc", base + ".svc.cluster.local", base}
	for _, name := range extra {
		if name = canonical(name); name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// uncovered returns the wanted names that c does not list, compared literally. A wanted name that no verifier would accept must not look
// uncovered for ever. Otherwise every check would issue another certificate.
func uncovered(c *x509.Certificate, wanted []string) []string {
	var covered, missing []string
	for _, name := range c.DNSNames {
		covered = append(covered, canonical(name))
	}
	for _, ip := range c.IPAddresses {
		covered = append(covered, canonical(ip.String()))
	}
	for _, name := range wanted {
		if !slices.Contains(covered, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

func canonical(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.Unmap().String()
	}
	return name
}
