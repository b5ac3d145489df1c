package check

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"

	"nodekeep.dev/nodekeep/verify"
)

// DNS resolves the names by the Pod's own resolver. With `servers: each` it also asks every endpoint of the DNS Service. The names go to a server one
// after the other, so that a server without answers costs one wait.
func (t try) DNS(asked *verify.DNS) error {
	const resolver = "" // the Pod's own resolver
	servers := []string{resolver}
	if asked.Servers == verify.EachServer {
		if len(t.task.DNS.Endpoints) == 0 {
			return failf(verify.ReasonNoService, "the DNS Service has no ready endpoint to ask")
		}
		// Endpoints come first, because the message names the first one that failed: the Service's address hides which endpoint is mute.
		servers = append(slices.Clone(t.task.DNS.Endpoints[:min(len(t.task.DNS.Endpoints), maxAddresses)]), resolver)
	}
	return t.first(servers, "DNS servers", func(ctx context.Context, server string) error {
		for _, name := range asked.Names {
			if err := t.resolve(ctx, name, server); err != nil {
				return err
			}
		}
		return nil
	})
}

// resolve asks a server, or the Pod's own resolver without one, for the addresses of a name.
func (r *run) resolve(ctx context.Context, name, server string) error {
	seen := &exchanges{}
	defer seen.close()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if server != "" {
			address = server
		}
		connection, err := r.pod.dial(ctx, network, address)
		if err != nil && !errors.Is(err, context.Canceled) {
			host, _, _ := net.SplitHostPort(address) // the resolver and endpoints have both
			failed := dialFailure(err, host)
			seen.end(seen.begin(address, func() error { return nil }), failed.reason, "cannot be asked: "+failed.message)
		}
		if err != nil {
			return nil, err
		}
		return seen.watch(connection, address), nil
	}}
	answer, err := resolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return seen.failure(name, err)
	}
	lastServer, ok := seen.lastServer()
	if !ok {
		return failf(verify.ReasonError, "%s: no DNS server was asked: it is an address, or /etc/hosts has it", name)
	}
	service, ok := verify.ServiceOfName(name)
	if !ok {
		return nil
	}
	expected := clusterIPs(r.task.Services[service])
	if len(expected) == 0 {
		return nil
	}
	for _, ip := range answer {
		if !slices.ContainsFunc(expected, func(clusterIP string) bool { return sameIP(clusterIP, ip) }) {
			return failf(verify.ReasonWrongAnswer, "%s: %s answered %s, must be %s", name, lastServer, ip.Unmap(), strings.Join(expected, " or "))
		}
	}
	return nil
}

func sameIP(text string, ip netip.Addr) bool {
	parsed, err := netip.ParseAddr(text)
	return err == nil && parsed.Unmap() == ip.Unmap()
}
