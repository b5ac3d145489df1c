package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asProgram makes the test binary behave as nodekeep itself, so that exit codes and output are the real ones.
const asProgram = "NODEKEEP_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// program returns a command that runs the test binary as nodekeep itself, until the test ends.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], args...)
	command.Env = []string{asProgram + "=1", "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "GOCOVERDIR=" + t.TempDir()}
	return command
}

// codeOf returns the exit code of a program, by the error of its end.
func codeOf(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	require.NoError(t, err)
	return 0
}

// nodekeep runs the program and returns its exit code and what it printed.
func nodekeep(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut strings.Builder
	command := program(t, args...)
	command.Stdout, command.Stderr = &out, &errOut
	code = codeOf(t, command.Run())
	return code, out.String(), errOut.String()
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: c
`

func TestEveryErrorIsNamedAtOnceAndNothingStarts(t *testing.T) {
	goodConfig := write(t, "kubeconfig", kubeconfig)
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"capture with wrong values": {
			args: []string{"capture", "--kubeconfig", goodConfig, "--namespace", "Not_A_Name", "--workers", "0", "--label-patches-per-second", "0", "--log-format", "xml", "--log-level", "loud", "--metrics-bind-address", "nowhere", "--pprof-bind-address", "6060",
				"--resync", "-1m", "--retention-sweep", "-1m", "--retention-fraction", "1.5"},
			want: []string{"--resync -1m", "--retention-sweep -1m", "--retention-fraction 1.5", "--namespace", "--workers 0", "--label-patches-per-second 0", "--log-format", "--log-level", "--metrics-bind-address", "--pprof-bind-address"},
		},
		"webhook with wrong values and with a kubeconfig that is missing": {
			args: []string{"webhook", "--kubeconfig", "/does/not/exist", "--bind-address", ":70000", "--cert-names", "no_name", "--drain", "-1s"},
			want: []string{"--kubeconfig /does/not/exist", "--bind-address \":70000\"", "--cert-names", "--drain"},
		},
		"no port for reviews":                      {args: []string{"webhook", "--kubeconfig", goodConfig, "--bind-address", "9443"}, want: []string{`--bind-address "9443": must be :PORT or IP:PORT, such as :9443`}},
		"an empty port for reviews":                {args: []string{"webhook", "--kubeconfig", goodConfig, "--bind-address", "127.0.0.1:"}, want: []string{`--bind-address "127.0.0.1:": must be :PORT or IP:PORT, such as :9443`}},
		"a name to listen on":                      {args: []string{"webhook", "--kubeconfig", goodConfig, "--bind-address", "localhost:9443"}, want: []string{`--bind-address "localhost:9443": must be :PORT or IP:PORT, such as :9443`}},
		"no address for reviews":                   {args: []string{"webhook", "--kubeconfig", goodConfig, "--bind-address="}, want: []string{`--bind-address "": must be`}},
		"no address for metrics":                   {args: []string{"capture", "--kubeconfig", goodConfig, "--metrics-bind-address="}, want: []string{`--metrics-bind-address "": must be :PORT or IP:PORT, such as :8080, or 0 for none`}},
		"no address for probes, an IP for metrics": {args: []string{"capture", "--kubeconfig", goodConfig, "--health-probe-bind-address=", "--metrics-bind-address=[::1]:8080"}, want: []string{"1 error(s)", `--health-probe-bind-address "": must be`}},
		"a directory of certificates without name": {args: []string{"webhook", "--kubeconfig", goodConfig, "--cert-dir="}, want: []string{"--cert-dir is empty"}},
		"verify with wrong values": {
			args: []string{"verify", "--kubeconfig", goodConfig, "--image", "nodekeep", "--image-pull-policy", "Sometimes", "--retention-sweep", "10ms"},
			want: []string{`--image-pull-policy "Sometimes"`, "--retention-sweep 10ms"},
		},
		"names for a certificate that the webhook does not manage": {
			args: []string{"webhook", "--kubeconfig", goodConfig, "--cert-dir", "x", "--cert-names", "a.example.com"},
			want: []string{"--cert-names needs a certificate that the webhook manages"},
		},
		"unknown flags, values of the wrong type and a wrong value": {
			args: []string{"capture", "--kubeconfig", "/does/not/exist", "--wrong", "--workers", "many", "--another=1", "--resync=x", "--log-level", "loud"},
			want: []string{"6 error(s)", "--wrong", "--workers", "--another", "--resync", "--log-level", "--kubeconfig"},
		},
		"a flag without its value": {
			args: []string{"capture", "--kubeconfig", goodConfig, "--nope", "--workers"},
			want: []string{"--nope", "--workers"},
		},
		"a fraction of less than nothing":   {args: []string{"capture", "--kubeconfig", goodConfig, "--retention-fraction", "-0.1"}, want: []string{"--retention-fraction -0.1: must be between 0 and 1"}},
		"a fraction that is no number":      {args: []string{"capture", "--kubeconfig", goodConfig, "--retention-fraction", "nan"}, want: []string{"--retention-fraction NaN"}},
		"sweeps in too quick a succession":  {args: []string{"capture", "--kubeconfig", goodConfig, "--retention-sweep", "10ms"}, want: []string{"--retention-sweep 10ms: must be at least 1s, or 0 for never"}},
		"resyncs in too quick a succession": {args: []string{"capture", "--kubeconfig", goodConfig, "--resync", "10ms"}, want: []string{"--resync 10ms: must be at least 1s, or 0 for never"}},
		"an argument where none belongs": {
			args: []string{"capture", "now", "--kubeconfig", goodConfig},
			want: []string{`unexpected argument "now"`},
		},
		"a policy in a file, which only commands read": {
			args: []string{"capture", "--kubeconfig", goodConfig, "--policy", "policy.yaml"},
			want: []string{"--policy"},
		},
		"an unknown command":            {args: []string{"webhoo"}, want: []string{"webhoo"}},
		"an unknown flag of no command": {args: []string{"--bogus"}, want: []string{"--bogus"}},
		"no kubeconfig outside a cluster": {
			args: []string{"capture"},
			want: []string{"--kubeconfig is needed outside a cluster"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := nodekeep(t, c.args...)
			assert.Equal(t, exitUsage, code, stderr)
			assert.Empty(t, stdout)
			for _, want := range c.want {
				assert.Contains(t, stderr, want)
			}
			assert.NotContains(t, stderr, "level=", "nothing may have been started")
		})
	}
}

func TestHelpAndVersionAreNoErrors(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"capture", "--help"}, {"webhook", "--help"}, {"--version"}, {}} {
		code, stdout, _ := nodekeep(t, args...)
		assert.Equal(t, 0, code, args)
		assert.NotEmpty(t, stdout, args)
	}
}

func TestReadinessNamesWhatIsMissing(t *testing.T) {
	broken := errors.New("no certificate yet")
	var certificate error
	handler := probes([]check{synced("records", func() bool { return true }), {name: "certificate", ok: func() error { return certificate }}})
	get := func(path string) (int, string) {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		return recorder.Code, recorder.Body.String()
	}
	code, body := get("/readyz")
	assert.Equal(t, http.StatusOK, code)
	assert.Equal(t, "ok\n", body)
	code, body = get("/readyz?verbose")
	assert.Equal(t, http.StatusOK, code)
	assert.Equal(t, "[+] records: ok\n[+] certificate: ok\n", body)
	certificate = broken
	code, body = get("/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.Equal(t, "[+] records: ok\n[-] certificate: no certificate yet\n", body)
	code, _ = get("/healthz")
	assert.Equal(t, http.StatusOK, code, "alive all the same")
}
