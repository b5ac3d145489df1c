package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// running is a process that was started for real. The API server has nothing but a NodePolicy.
type running struct {
	metrics, probes string // addresses
}

// policies returns an API server that has nothing but a NodePolicy with this spec, in JSON. It is not available to those who ask for anything else.
func policies(t *testing.T, spec string) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/nodekeep.dev/v1alpha1/nodepolicies/default", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"NodePolicy","metadata":{"name":"default","uid":"1","generation":1},"spec":%s}`, spec)
	})
	mux.HandleFunc("GET /apis/rbac.authorization.k8s.io/v1/", func(w http.ResponseWriter, _ *http.Request) { // no emergency is declared
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","code":404}`)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "starting", http.StatusServiceUnavailable) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// specs are policies under which all series of a process are there.
var specs = map[string]string{
	"webhook": `{}`,
	"capture": `{"inventory":[{"name":"cmdb","file":"/var/run/nodekeep/inventory.json","attributes":["rack"]}]}`,
	"verify":  `{"verify":{"profiles":[{"name":"gpu","checks":[{"name":"dns","dns":{"names":["kubernetes.default.svc"]}}]}]}}`,
}

// runs starts a process and returns when it serves metrics, and its policy is in force.
func runs(t *testing.T, process string, args ...string) running {
	t.Helper()
	return runsWith(t, process, policies(t, specs[process]), "[+] policy: ok", args...)
}

// runsWith starts a process with the API server at a URL. It returns when the process serves metrics, and /readyz says so of the policy.
func runsWith(t *testing.T, process, server, policy string, args ...string) running {
	t.Helper()
	r := running{metrics: freeAddress(t), probes: freeAddress(t)}
	args = append([]string{
		process, "--kubeconfig", write(t, "kubeconfig", strings.Replace(kubeconfig, "https://127.0.0.1:1", server, 1)),
		"--metrics-bind-address", r.metrics, "--health-probe-bind-address", r.probes,
	}, args...)
	switch process {
	case "webhook":
		args = append(args, "--cert-dir", t.TempDir(), "--bind-address", "127.0.0.1:0", "--drain", "0s")
	case "verify":
		args = append(args, "--image", "nodekeep")
	}
	command := program(t, args...)
	require.NoError(t, command.Start())
	t.Cleanup(func() { _ = command.Wait() })
	require.Eventually(t, func() bool { status, _ := get("http://" + r.metrics + "/metrics"); return status == http.StatusOK },
		time.Minute, 20*time.Millisecond, "%s does not serve metrics", process)
	require.Eventually(t, func() bool {
		_, body := get("http://" + r.probes + "/readyz?verbose")
		return strings.Contains(body, policy)
	},
		time.Minute, 20*time.Millisecond, "/readyz of %s does not say %q", process, policy)
	return r
}

// scrape returns what Prometheus would read.
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

// freeAddress returns a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

func TestAProcessThatDoesNotKnowItsPolicyServesProbesAndMetricsAndDoesNothing(t *testing.T) {
	for _, process := range []string{"webhook", "capture", "verify"} {
		t.Run(process, func(t *testing.T) {
			var acts atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || strings.HasSuffix(r.URL.Path, "/nodes") || strings.Contains(r.URL.Path, "/leases") {
					acts.Add(1)
				}
				http.Error(w, "starting", http.StatusServiceUnavailable)
			}))
			defer server.Close()
			r := runsWith(t, process, server.URL, "[-] policy: still being read")
			time.Sleep(2 * time.Second)
			status, _ := get("http://" + r.probes + "/healthz")
			assert.Equal(t, http.StatusOK, status)
			assert.Zero(t, acts.Load(), "it watches no Nodes, asks for no Lease, and writes nothing")
		})
	}
}
