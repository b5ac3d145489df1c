package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
)

// nodekeep is the installation that all tests of this package share.
var nodekeep *harness.Installation

// apiServerName is the common name by which the API server calls webhooks that ask for a client certificate; callers is who signed it.
const apiServerName = "kube-apiserver-of-the-tests"

var callers *harness.Authority

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "nodekeep-admission-")
	if err == nil {
		err = admissionConfiguration(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	options := harness.Options{APIServerArgs: []string{"--admission-control-config-file=" + filepath.Join(dir, "admission.yaml")}}
	code := harness.RunTests(m, options, func(i *harness.Installation) {
		nodekeep = i
		if err := prepare(i); err != nil {
			panic(err) // without a port to listen on nothing here can run
		}
	})
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// admissionConfiguration writes what docs/operating.md shows: the API server identifies itself to webhooks that ask for it.
func admissionConfiguration(dir string) error {
	var err error
	if callers, err = harness.NewAuthority(); err != nil {
		return err
	}
	certificate, key, err := callers.Client(apiServerName)
	if err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	admission := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	for _, plugin := range []string{"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"} {
		admission += fmt.Sprintf(`- name: %s
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %s
`, plugin, in("kubeconfig.yaml"))
	}
	for name, content := range map[string]string{
		"client.crt": string(certificate), "client.key": string(key), "admission.yaml": admission,
		"kubeconfig.yaml": fmt.Sprintf(`apiVersion: v1
kind: Config
users:
- name: '*'
  user: {client-certificate: %q, client-key: %q}
`, in("client.crt"), in("client.key")),
	} {
		if err := os.WriteFile(in(name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("write admission configuration: %w", err)
		}
	}
	return nil
}

const (
	captureProcess = "nodekeep-capture"
	webhookProcess = "nodekeep-webhook"
)

// noElection has capture act at once: a killed leader's Lease would have to run out first.
const noElection = "--leader-elect=false"

// rules is the policy of the tests: the shipped one, and everything that can be set on a Node, for labels that only tests of it use.
const rules = `apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  taints:
    rules:
    - {selector: lane, taint: "lane={value}:NoSchedule"}
    - {selector: tenant, taint: "tenant={value}:NoExecute"}
    register:
    - {taint: "node-ready/unverified=true:NoSchedule", nodeSelector: "example.com/verify=yes"}
`

// betweenCapture stands between capture and the API server, so that a test can break what is between them without a restart.
var betweenCapture *proxy.Proxy

// prepare says how both processes run unless a test says otherwise: capture is alone, and reaches the API server through a
// proxy.
func prepare(i *harness.Installation) (err error) {
	if betweenCapture, err = proxy.Start(i.Cluster.Admin()); err != nil {
		return err
	}
	i.Route = route(captureProcess, betweenCapture)
	i.TimeoutSeconds = harness.Patient
	i.CaptureArgs = []string{noElection}
	return i.WritePolicy(context.Background(), rules)
}

// route leads one process through a proxy.
func route(process string, p *proxy.Proxy) func(string, *rest.Config) *rest.Config {
	return func(name string, direct *rest.Config) *rest.Config {
		if name == process {
			return p.Config(direct)
		}
		return direct
	}
}

// captureProxy returns what is between capture and the API server. It is mended at the end of the test, and capture started anew: after
// errors its watches would pause before they go on.
func captureProxy(t testing.TB) *proxy.Proxy {
	t.Helper()
	t.Cleanup(func() {
		betweenCapture.Break(nil)
		killCapture(t)
		require.NoError(t, nodekeep.StartCapture(context.WithoutCancel(t.Context())))
	})
	return betweenCapture
}

// webhookProxy has the webhook reach the API server through a proxy from its next start on, until the end of the test. The webhook is
// down when this returns.
func webhookProxy(t testing.TB) *proxy.Proxy {
	t.Helper()
	p, err := proxy.Start(nodekeep.Cluster.Admin())
	require.NoError(t, err)
	prev := nodekeep.Route
	t.Cleanup(func() {
		p.Break(nil)
		require.NoError(t, nodekeep.StopWebhook())
		p.Stop()
		nodekeep.Route = prev
		require.NoError(t, nodekeep.StartWebhook(context.WithoutCancel(t.Context())))
	})
	require.NoError(t, nodekeep.StopWebhook())
	capture, webhook := prev, route(webhookProcess, p)
	nodekeep.Route = func(name string, direct *rest.Config) *rest.Config {
		if name == webhookProcess {
			return webhook(name, direct)
		}
		return capture(name, direct)
	}
	return p
}

// captureWith restarts capture with other arguments and another way to the API server (nil: straight), and as it was at the end of the test.
func captureWith(t testing.TB, route func(string, *rest.Config) *rest.Config, args ...string) {
	t.Helper()
	beforeRoute, beforeArgs := nodekeep.Route, nodekeep.CaptureArgs
	restart := func(route func(string, *rest.Config) *rest.Config, args []string) {
		t.Helper()
		nodekeep.WithoutCapture(t, func() { nodekeep.Route, nodekeep.CaptureArgs = route, args })
	}
	t.Cleanup(func() { restart(beforeRoute, beforeArgs) })
	restart(route, args)
}

// killCapture is kill -9.
func killCapture(t testing.TB) {
	t.Helper()
	require.NoError(t, nodekeep.Cluster.Process(captureProcess).Kill())
}

// captureSeries and webhookSeries sum series of the installed processes.
func captureSeries(t testing.TB, series string) float64 {
	t.Helper()
	return harness.Series(t, nodekeep.MetricsURL("capture"), series)
}

func webhookSeries(t testing.TB, series string) float64 {
	t.Helper()
	return harness.Series(t, nodekeep.MetricsURL("webhook"), series)
}

// logged returns what a process has logged since a moment.
func logged(t testing.TB, path string) (base func() string) {
	t.Helper()
	head, err := os.ReadFile(path)
	require.NoError(t, err)
	return func() string {
		now, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(now[len(head):])
	}
}

// resident returns how much memory a process holds (VmRSS), or held at most so far (VmHWM), in bytes.
func resident(t testing.TB, pid int, subject string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("needs /proc: %v", err)
	}
	found := regexp.MustCompile(subject + `:\s+(\d+) kB`).FindSubmatch(status)
	require.NotNil(t, found)
	kibibytes, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	return kibibytes << 10
}

// mostMemory is what the webhook may hold at any time, whatever callers send.
const mostMemory = 256 << 20

// freshWebhook starts the webhook anew, so that its memory is that of one test, and returns its process id.
func freshWebhook(t testing.TB) (pid int) {
	t.Helper()
	nodekeep.WithoutWebhook(t, func() {})
	untilCalled(t, true)
	return webhookPid()
}

func webhookPid() int { return nodekeep.Cluster.Process(webhookProcess).Pid() }

// survived asserts that the process of the webhook is the same as before and never held too much memory.
func survived(t testing.TB, pid int) {
	t.Helper()
	assert.Equal(t, pid, webhookPid())
	held := resident(t, pid, "VmHWM")
	t.Logf("the webhook held %d MiB at most", held>>20)
	assert.Less(t, held, mostMemory)
}

// tool runs a command of nodekeep as an admin and returns what it prints, errors included. doctor ends with an error where it
// finds anything.
func tool(t testing.TB, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), nodekeep.Binary(), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+nodekeep.AdminKubeconfig())
	out, err := command.CombinedOutput()
	if args[0] != "doctor" {
		require.NoError(t, err, "%v: %s", args, out)
	}
	return string(out)
}

// long reports whether tests of minutes are asked for.
func long() bool { return os.Getenv("NODEKEEP_LONG_FAULTS") == "1" }

// takesMinutes skips the test with a word about it where tests of minutes are not asked for.
func takesMinutes(t testing.TB) {
	t.Helper()
	if !long() {
		t.Skip("takes minutes: NODEKEEP_LONG_FAULTS=1 runs it, and so does make test-faults")
	}
}
