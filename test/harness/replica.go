package harness

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/bench/measure"
)

// Replica is one more process of nodekeep next to the installed ones, with the identity of its kind.
type Replica struct {
	Process *Process
	Address string // for webhook calls
	Probes  string // URL
	Metrics string // URL
}

// replicas numbers them, so that each has a log of its own.
var replicas atomic.Int64

// StartReplica starts one more "webhook" or "capture", until the end of the test, and does not wait for it. It reaches the API
// server as the installed process of its kind does.
func (i *Installation) StartReplica(t testing.TB, kind string, args ...string) *Replica {
	t.Helper()
	flags := []string{kind, "--kubeconfig", filepath.Join(i.Cluster.Dir(), "nodekeep-"+kind+".kubeconfig"), "--namespace", Namespace}
	free, err := FreeAddresses(3)
	require.NoError(t, err)
	r := &Replica{Address: free[0], Probes: "http://" + free[1], Metrics: "http://" + free[2] + "/metrics"}
	if kind == "webhook" {
		flags = append(flags, "--bind-address", r.Address)
	}
	flags = append(flags, "--health-probe-bind-address", free[1], "--metrics-bind-address", free[2])
	name := fmt.Sprintf("another-%s-%d", kind, replicas.Add(1))
	r.Process, err = i.Cluster.Go(name, i.Binary(), append(flags, args...), "POD_NAME="+name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Process.Stop() })
	return r
}

// Ready reports whether the process reports that it is ready.
func (r *Replica) Ready() bool {
	status, _ := Readiness(r.Probes + "/readyz")
	return status == http.StatusOK
}

// UntilReady waits until the process reports that it is ready.
func (r *Replica) UntilReady(t testing.TB) *Replica {
	t.Helper()
	require.Eventually(t, r.Ready, Settles, 20*time.Millisecond, "%s must become ready", r.Process.Name())
	return r
}

// UntilSays waits for a line of what the process says about its readiness.
func (r *Replica) UntilSays(t testing.TB, line string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, body := Readiness(r.Probes + "/readyz")
		return strings.Contains(body, line)
	}, Settles, 10*time.Millisecond, "%s must come to say %q", r.Process.Name(), line)
}

// Readiness returns what a process says of itself; the status is 0 while nobody answers. A slow process is waited for: a machine that
// stands still for a moment must not make it look unready.
func Readiness(url string) (status int, body string) {
	client := http.Client{Timeout: probeTimeout}
	response, err := client.Get(url + "?verbose")
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	content, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(content)
}

// Series sums the series of a metrics page, such as `nodekeep_capture_nodes` or one with labels in braces. Where nobody
// serves the page, or there is no such series, it is 0.
func Series(t testing.TB, url, series string) float64 {
	t.Helper()
	page, err := measure.Scrape(t.Context(), http.DefaultClient, url)
	if err != nil {
		return 0
	}
	name, labels, _ := strings.Cut(series, "{")
	return page.Sum(strings.TrimSpace(name), strings.TrimSuffix(labels, "}"))
}

// APIServerSeries returns the API server's own metrics.
func (i *Installation) APIServerSeries(t testing.TB) measure.Series {
	t.Helper()
	stream, err := i.Admin.RESTClient().Get().AbsPath("/metrics").Stream(t.Context())
	require.NoError(t, err)
	defer stream.Close()
	page, err := measure.ReadSeries(stream)
	require.NoError(t, err)
	return page
}
