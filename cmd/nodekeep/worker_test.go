package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/verify"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// listening returns an address that accepts connections.
func listening(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

func tcpTo(name, address string, required bool) verify.Check {
	return verify.Check{Name: name, Required: &required, TCP: new(verify.TCP(address))}
}

// workerOf returns a worker with a task that leaves its termination message in a file.
func workerOf(t *testing.T, task, file string) *exec.Cmd {
	t.Helper()
	command := program(t, "worker", "--report", file)
	command.Env = append(command.Env, verify.TaskVariable+"="+task)
	return command
}

// work runs a worker with a task and returns its exit code, its termination message and its log.
func work(t *testing.T, task string) (code int, message, log string) {
	t.Helper()
	file := write(t, "termination-log", "an older and longer message that must be replaced"+strings.Repeat("!", 5000))
	out, err := workerOf(t, task, file).CombinedOutput()
	code = codeOf(t, err)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return code, string(text), string(out)
}

func taskOf(t *testing.T, timeout string, checks ...verify.Check) string {
	t.Helper()
	text, err := json.Marshal(verify.Task{Timeout: timeout, Checks: checks})
	require.NoError(t, err)
	return string(text)
}

func TestTheWorkerLeavesAReportAndAnExitCode(t *testing.T) {
	open := listening(t)
	const closed = "127.0.0.1:1"
	for name, test := range map[string]struct {
		checks []verify.Check
		code   int
		failed bool
	}{
		"all checks pass":               {[]verify.Check{tcpTo("a", open, true), tcpTo("b", open, true)}, 0, false},
		"a required check fails":        {[]verify.Check{tcpTo("a", open, true), tcpTo("b", closed, true)}, 1, true},
		"an optional check fails":       {[]verify.Check{tcpTo("a", open, true), tcpTo("b", closed, false)}, 0, false},
		"there are container checks":    {[]verify.Check{tcpTo("a", open, true), {Name: "smi", Container: &verify.Container{Image: "image"}}}, 0, false},
		"there are only such checks":    {[]verify.Check{{Name: "smi", Container: &verify.Container{Image: "image"}}}, 0, false},
		"all of twenty checks fail":     {twenty(closed), 1, true},
		"a failure is not listed first": {[]verify.Check{tcpTo("a", closed, true), tcpTo("b", open, true)}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			code, message, log := work(t, taskOf(t, "2s", test.checks...))
			assert.Equal(t, test.code, code, log)
			report, err := verify.ParseReport(message, test.checks)
			require.NoError(t, err, message)
			assert.Equal(t, test.failed, report.Failed())
			assert.NotEmpty(t, log, "the controller reads a byte of it")
		})
	}
}

func twenty(address string) (checks []verify.Check) {
	for i := range 20 {
		checks = append(checks, tcpTo(fmt.Sprint("check-", i), address, true))
	}
	return checks
}

func TestAWorkerThatCannotReadItsTaskDecidesNothing(t *testing.T) {
	for name, task := range map[string]string{
		"no task":                    "",
		"no JSON":                    "checks",
		"a check of a newer version": `{"timeout":"1s","checks":[{"name":"a","icmp":{}}],"dns":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			code, message, log := work(t, task)
			assert.Equal(t, 2, code)
			assert.Contains(t, message, "NODEKEEP_CHECKS: read task: ")
			assert.Contains(t, log, "NODEKEEP_CHECKS: read task: ")
			_, err := verify.ParseReport(message, nil)
			assert.Error(t, err)
		})
	}
}

func TestAWorkerThatIsInterruptedDecidesNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	file := write(t, "termination-log", "")
	checks := []verify.Check{{Name: "a", HTTP: &verify.HTTP{URL: "http://" + listener.Addr().String()}}}
	command := workerOf(t, taskOf(t, "1h", checks...), file)
	require.NoError(t, command.Start())
	connection, err := listener.Accept() // the worker asks now
	require.NoError(t, err)
	defer connection.Close()
	_, err = bufio.NewReader(connection).ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, command.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 2, codeOf(t, command.Wait()))
	message, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(message), "interrupted")
	_, err = verify.ParseReport(string(message), checks)
	assert.Error(t, err)
}

func TestAWorkerThatCannotWriteItsReportFails(t *testing.T) {
	task := taskOf(t, "1s", tcpTo("a", listening(t), true))
	out, err := workerOf(t, task, filepath.Join(t.TempDir(), "none", "termination-log")).CombinedOutput()
	assert.Equal(t, 2, codeOf(t, err))
	assert.Contains(t, string(out), "write report: ")
}

func TestADryRunShowsWhatWouldPassHere(t *testing.T) {
	open := listening(t)
	file := write(t, "policy.yaml", policytest.Manifest(`verify:
  profiles:
  - name: gpu
    nodeSelector: gpu=yes
    timeout: 1s
    checks:
    - {name: registry, tcp: "`+open+`"}
    - {name: mirror, tcp: "127.0.0.1:1"}
    - {name: api, api: {}}
    - {name: service, service: {name: kube-system/kube-dns, port: 53}}
    - {name: smi, container: {image: example.com/smi:1}}
  - name: rest
    timeout: 1s
    checks: [{name: registry, tcp: "`+open+`"}]
`))
	code, out, message := nodekeep(t, "worker", "--policy", file, "--profile", "gpu")
	assert.Equal(t, 1, code)
	assert.Equal(t, "required checks failed: mirror\n", message)
	for _, line := range []string{
		`registry +passed +true +\S+ +1\b`, `mirror +failed +true +\S+ +\d+ +Refused +connect to 127.0.0.1:1: `, `api +skipped +true +0s +0 +NotInPod`,
		`service +skipped +true +0s +0 +NotInPod +only the controller looks up where Service kube-system/kube-dns is`,
		`smi +skipped +true +0s +0 +Container +a container of the worker Pod: run the image example.com/smi:1 yourself`,
	} {
		assert.Regexp(t, `(?m)^`+line, out)
	}

	code, out, message = nodekeep(t, "worker", "--policy", file, "--profile", "rest")
	assert.Equal(t, 0, code, message)
	assert.Regexp(t, `(?m)^registry +passed`, out)

	for name, test := range map[string]struct {
		args    []string
		message string
	}{
		"no profile where there are two": {[]string{"--policy", file}, "the policy has the profiles gpu, rest"},
		"a profile that does not exist":  {[]string{"--policy", file, "--profile", "cpu"}, `--profile "cpu": the policy has the profiles gpu, rest`},
		"no policy":                      {[]string{"--profile", "gpu"}, "--profile needs --policy"},
		"a policy without profiles":      {[]string{"--policy", write(t, "empty.yaml", policytest.Head)}, "no profiles in section verify"},
		"a policy that does not exist":   {[]string{"--policy", "/none"}, "--policy /none: "},
		"an argument":                    {[]string{"gpu"}, `unexpected argument "gpu"`},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, message := nodekeep(t, append([]string{"worker"}, test.args...)...)
			assert.Equal(t, 2, code)
			assert.Contains(t, message, test.message)
		})
	}
}
