package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/trial"
)

// An operator's trial, on real kubelets and with Helm: each job of test/trial says what its commands print. What they state is compared with what
// the API server has.
func TestAnOperatorsTrial(t *testing.T) {
	jobs, err := trial.Jobs()
	require.NoError(t, err)
	c := forTest(t)
	c.add(t, "node-1")
	k := c.add(t, "node-2")
	dir := t.TempDir()
	for _, job := range jobs {
		if !t.Run(job.Name, func(t *testing.T) {
			for _, step := range job.Steps {
				if step.Kubelet != "" {
					require.Equal(t, "restarts", step.Kubelet)
					k.registersAgain(t)
					k.waitReady(t)
					continue
				}
				c.tries(t, dir, step)
			}
		}) {
			t.FailNow() // the next jobs go on from here
		}
	}
}

// tries runs a step, and repeats it where it waits for something.
func (c *cluster) tries(t *testing.T, dir string, step trial.Step) {
	t.Helper()
	var text string
	wrong := func() []string {
		prev := c.state(t)
		var code int
		text, code = c.types(t, dir, step.Run)
		wrong := step.Wrong(text, code)
		if words := step.Statements(); words != nil {
			wrong = append(wrong, trial.Untrue(trial.Output{Command: words, Text: text, Code: code}, prev, c.state(t))...)
		}
		return wrong
	}
	last := wrong()
	if step.Repeat {
		for end := time.Now().Add(settles); len(last) > 0 && time.Now().Before(end); time.Sleep(time.Second) {
			last = wrong()
		}
	}
	t.Logf("$ %s\n%s", step.Run, text)
	assert.Empty(t, last)
	if t.Failed() {
		t.FailNow()
	}
}

func (c *cluster) state(t *testing.T) trial.State {
	t.Helper()
	state, err := trial.Read(t.Context(), c.Cluster.Admin(), namespace)
	require.NoError(t, err)
	return state
}

// types runs a line in a shell as an operator has it.
func (c *cluster) types(t *testing.T, dir, line string) (text string, code int) {
	t.Helper()
	helm, err := harness.Helm()
	require.NoError(t, err)
	bin := filepath.Join(dir, "bin") // Helm's file has its version in its name
	require.NoError(t, os.MkdirAll(bin, 0o700))
	if err := os.Symlink(helm, filepath.Join(bin, "helm")); !os.IsExist(err) {
		require.NoError(t, err)
	}
	command := exec.CommandContext(t.Context(), "sh", "-c", line)
	command.Dir = dir
	path := []string{bin, filepath.Dir(binary(t)), filepath.Dir(harness.Binary("kubectl")), os.Getenv("PATH")}
	command.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "HOME="+dir, "CHART="+harness.Chart(), "PATH="+strings.Join(path, ":"))
	out, err := command.CombinedOutput()
	if command.ProcessState == nil {
		require.NoError(t, err)
	}
	return string(out), command.ProcessState.ExitCode()
}
