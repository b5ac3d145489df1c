package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// running is a process that was started for real, without an API server.
type running struct {
	metrics string // its address
}

// runs starts a process and returns when it serves metrics.
func runs(t *testing.T, process string, args ...string) running {
	t.Helper()
	r := running{metrics: freeAddress(t)}
	args = append([]string{
		process, "--kubeconfig", write(t, "kubeconfig", kubeconfig), "--metrics-bind-address", r.metrics, "--health-probe-bind-address", "0",
	}, args...)
	switch process {
	case "webhook":
		args = append(args, "--cert-dir", t.TempDir(), "--host", "127.0.0.1", "--port", "0", "--drain", "0s")
	case "capture":
		args = append(args, "--policy", write(t, "policy.yaml", "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec:\n  inventory: [{name: cmdb, file: /var/run/nodekeep/inventory.json, attributes: [rack]}]\n"))
	case "verify":
		args = append(args, "--image", "nodekeep", "--policy", write(t, "policy.yaml", "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec:\n  verify: {profiles: [{name: gpu, checks: [{name: dns, dns: {names: [kubernetes.default.svc]}}]}]}\n"))
	}
	command := program(t, args...)
	require.NoError(t, command.Start())
	t.Cleanup(func() { _ = command.Wait() })
	require.Eventually(t, func() bool { status, _ := get("http://" + r.metrics + "/metrics"); return status == http.StatusOK },
		time.Minute, 20*time.Millisecond, "%s does not serve metrics", process)
	return r
}

// scrape is what Prometheus would read.
func (r running) scrape(t *testing.T) string {
	t.Helper()
	status, body := get("http://" + r.metrics + "/metrics")
	require.Equal(t, http.StatusOK, status)
	return body
}

func get(url string) (status int, body string) {
	response, err := http.Get(url)
	if err != nil {
		return 0, fmt.Sprint(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, fmt.Sprint(err)
	}
	return response.StatusCode, string(content)
}

// freeAddress is a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}
