package faults

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// replica is a process of the webhook beside the installed one, with the same identity.
type replica struct {
	process *harness.Process
	address string // for webhook calls
	probes  string
}

// freeAddresses are so many loopback addresses that nobody listens on, each another one.
func freeAddresses(t testing.TB, count int) (addresses []string) {
	t.Helper()
	for range count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses
}

// startReplica starts a webhook and does not wait for it.
func startReplica(t testing.TB, name string, args ...string) *replica {
	t.Helper()
	free := freeAddresses(t, 2)
	r := &replica{address: free[0], probes: free[1]}
	_, port, err := net.SplitHostPort(r.address)
	require.NoError(t, err)
	r.process, err = nodekeep.Cluster.Go(name, nodekeep.Binary(), append([]string{
		"webhook", "--kubeconfig", filepath.Join(nodekeep.Cluster.Dir(), "nodekeep-webhook.kubeconfig"), "--namespace", harness.Namespace,
		"--policy", nodekeep.PolicyFile, "--host", "127.0.0.1", "--port", port,
		"--health-probe-bind-address", r.probes, "--metrics-bind-address", "0",
	}, args...))
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.process.Stop() })
	return r
}

// readiness is what a process says of itself; the status is 0 while nobody answers. Whoever is slow is waited for: a machine
// that stands still for a moment must not take all replicas out of rotation at once.
func readiness(url string) (status int, body string) {
	client := http.Client{Timeout: delayed}
	response, err := client.Get(url)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	content, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(content)
}

func (r *replica) readiness() (status int, body string) {
	return readiness("http://" + r.probes + "/readyz?verbose")
}

func (r *replica) ready() bool {
	status, _ := r.readiness()
	return status == http.StatusOK
}

// untilSays waits for a line of what the replica says about its readiness.
func (r *replica) untilSays(t testing.TB, line string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, body := r.readiness()
		return strings.Contains(body, line)
	}, settles, 10*time.Millisecond, "%s must come to say %q", r.process.Name(), line)
}
