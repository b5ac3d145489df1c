package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// answer is what a command has printed and how it ended.
type answer struct {
	code        int
	out, errOut string
}

// run runs the program as an admin.
func run(t *testing.T, args ...string) answer {
	t.Helper()
	return runAs(t, nodekeep.AdminKubeconfig(), "", args...)
}

// answering runs the program as an admin who types that.
func answering(t *testing.T, stdin string, args ...string) answer {
	t.Helper()
	return runAs(t, nodekeep.AdminKubeconfig(), stdin, args...)
}

func runAs(t *testing.T, kubeconfig, stdin string, args ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settles)
	defer cancel()
	command := exec.CommandContext(ctx, nodekeep.Binary(), args...)
	command.Env = environment(kubeconfig)
	command.Stdin = strings.NewReader(stdin)
	return finish(t, command)
}

// shell runs a command line as people type it, in a folder: nodekeep and kubectl are in the PATH.
func shell(t *testing.T, dir, line string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settles)
	defer cancel()
	command := exec.CommandContext(ctx, "sh", "-c", line)
	command.Env, command.Dir = environment(nodekeep.AdminKubeconfig()), dir
	return finish(t, command)
}

func environment(kubeconfig string) []string {
	path := []string{filepath.Dir(nodekeep.Binary()), filepath.Dir(harness.Binary("kubectl")), os.Getenv("PATH")}
	return []string{"KUBECONFIG=" + kubeconfig, "HOME=" + filepath.Dir(nodekeep.Binary()), "PATH=" + strings.Join(path, string(filepath.ListSeparator))}
}

func finish(t *testing.T, command *exec.Cmd) answer {
	t.Helper()
	var out, errOut bytes.Buffer
	command.Stdout, command.Stderr = &out, &errOut
	err := command.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return answer{code: command.ProcessState.ExitCode(), out: out.String(), errOut: errOut.String()}
}

// requireDone is for commands that must do what they were asked for, without a word on stderr.
func (a answer) requireDone(t *testing.T) answer {
	t.Helper()
	require.Equal(t, 0, a.code, a.errOut)
	require.Empty(t, a.errOut)
	return a
}

// What differs from run to run.
var (
	uids  = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	times = regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z\b`)
	ages  = regexp.MustCompile(`\b(\d+[smhd])+\b( *)`)
)

// alike writes what differs from run to run in one way, without moving the columns behind it.
func alike(text string) string {
	text = uids.ReplaceAllString(text, "00000000-0000-0000-0000-000000000000")
	text = times.ReplaceAllString(text, "2026-01-02T03:04:05Z")
	return ages.ReplaceAllStringFunc(text, func(age string) string {
		if !strings.HasSuffix(age, " ") {
			return "<age>"
		}
		return "<age>" + strings.Repeat(" ", max(1, len(age)-len("<age>")))
	})
}

// requireGolden compares an output with that of a file in testdata.
func requireGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	got = alike(got)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run with -update and read what it writes")
	assert.Equal(t, string(want), got)
}
