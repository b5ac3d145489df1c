package check_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/check"
	"nodekeep.dev/nodekeep/verify"
)

func accept(net.Conn) {}

// lostAt connects, but for these addresses, whose packets are lost, and for unreachable ones.
func lostAt(lost, unreachable string) check.Pod {
	return check.Pod{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		switch address {
		case lost:
			<-ctx.Done()
			return nil, ctx.Err()
		case unreachable:
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}

func TestTCPConnections(t *testing.T) {
	open, closed := tcpServer(t, accept), closedPort(t)
	unknown, failing, silent := dnsServer(t, withAddresses(nil)), dnsServer(t, withCode(2)), dnsServer(t, mute)
	for name, test := range map[string]struct {
		pod     check.Pod
		address string
		reason  verify.Reason
		message string
	}{
		"a server that listens passes":        {check.Pod{}, open, "", ""},
		"a port that is closed":               {check.Pod{}, closed, verify.ReasonRefused, "connect to " + closed + ": connect: connection refused"},
		"an address that packets never reach": {lostAt("192.0.2.1:443", ""), "192.0.2.1:443", verify.ReasonTimeout, "connect to 192.0.2.1:443: no answer in time"},
		"an address without a route":          {lostAt("", "192.0.2.1:443"), "192.0.2.1:443", verify.ReasonUnreachable, "no route to host"},
		"a name that does not exist":          {viaDNS(unknown), "registry.example.com.:443", verify.ReasonNoSuchName, "registry.example.com"},
		"a name whose DNS server fails":       {viaDNS(failing), "registry.example.com.:443", verify.ReasonServerFailure, "registry.example.com"},
		"a name whose DNS server is mute":     {viaDNS(silent), "registry.example.com.:443", verify.ReasonTimeout, "registry.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := ask(t, test.pod, test.reason, verify.Check{TCP: new(verify.TCP(test.address))}, verify.Task{})
			assert.Contains(t, result.Message, test.message)
		})
	}
}

// viaDNS returns a Pod that resolves names of addresses at a server.
func viaDNS(server string) check.Pod {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server)
	}}
	return check.Pod{Dial: (&net.Dialer{Resolver: resolver}).DialContext}
}

func TestAServiceIsAskedAtItsClusterIPAndAtEndpoints(t *testing.T) {
	clusterIP, arg, second, closed := tcpServer(t, accept), tcpServer(t, accept), tcpServer(t, accept), closedPort(t)
	const lost = "192.0.2.1:53"
	port := func(address string) int {
		_, text, err := net.SplitHostPort(address)
		require.NoError(t, err)
		number, err := strconv.Atoi(text)
		require.NoError(t, err)
		return number
	}
	loopback := []string{"127.0.0.1"}
	for name, test := range map[string]struct {
		port      int
		endpoints int
		target    *verify.Target
		reason    verify.Reason
		message   string
	}{
		"the ClusterIP alone":                    {port(clusterIP), 0, &verify.Target{ClusterIPs: loopback}, "", ""},
		"the ClusterIP and endpoints":            {port(clusterIP), 2, &verify.Target{ClusterIPs: loopback, Endpoints: []string{arg, second}}, "", ""},
		"fewer endpoints than wanted":            {port(clusterIP), 3, &verify.Target{ClusterIPs: loopback, Endpoints: []string{arg}}, "", ""},
		"no endpoint on another Node":            {port(clusterIP), 3, &verify.Target{ClusterIPs: loopback}, "", ""},
		"endpoints that are not wanted":          {port(clusterIP), 0, &verify.Target{ClusterIPs: loopback, Endpoints: []string{lost}}, "", ""},
		"more endpoints than wanted":             {port(clusterIP), 1, &verify.Target{ClusterIPs: loopback, Endpoints: []string{arg, lost}}, "", ""},
		"a headless Service":                     {80, 1, &verify.Target{ClusterIPs: []string{"None"}, Endpoints: []string{arg}}, "", ""},
		"a ClusterIP that refuses":               {port(closed), 1, &verify.Target{ClusterIPs: loopback, Endpoints: []string{arg}}, verify.ReasonRefused, "(1 of 2 addresses failed)"},
		"an endpoint that packets never reach":   {port(clusterIP), 2, &verify.Target{ClusterIPs: loopback, Endpoints: []string{arg, lost}}, verify.ReasonTimeout, "connect to 192.0.2.1:53: no answer in time (1 of 3 addresses failed)"},
		"one of two ClusterIPs does not answer":  {53, 0, &verify.Target{ClusterIPs: []string{"192.0.2.1"}}, verify.ReasonTimeout, "connect to 192.0.2.1:53"},
		"a Service that does not exist":          {53, 1, nil, verify.ReasonNoService, "Service kube-system/kube-dns does not exist"},
		"a headless Service without an endpoint": {53, 1, &verify.Target{ClusterIPs: []string{"None"}}, verify.ReasonNoService, "nor an endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := verify.Task{Services: map[string]verify.Target{}}
			if test.target != nil {
				task.Services["kube-system/kube-dns"] = verify.Target{ClusterIPs: []string{"192.0.2.9"}} // for names; this check asks by its port
				task.Services[fmt.Sprintf("kube-system/kube-dns:%d", test.port)] = *test.target
			}
			result := ask(t, lostAt(lost, ""), test.reason, verify.Check{Service: &verify.Service{Name: "kube-system/kube-dns", Port: test.port, Endpoints: test.endpoints}}, task)
			assert.Contains(t, result.Message, test.message)
		})
	}
}

func TestAtMostSoManyAddressesOfAServiceAreAsked(t *testing.T) {
	var asked atomic.Int32
	pod := check.Pod{Dial: func(context.Context, string, string) (net.Conn, error) {
		asked.Add(1)
		client, _ := net.Pipe()
		return client, nil
	}}
	endpoints := make([]string, 1000)
	result := ask(t, pod, "", verify.Check{Service: &verify.Service{Name: "a/b", Port: 1, Endpoints: 1000}}, verify.Task{Services: map[string]verify.Target{"a/b:1": {Endpoints: endpoints}}})
	assert.Equal(t, verify.Passed, result.Outcome)
	assert.EqualValues(t, 32, asked.Load())
}
