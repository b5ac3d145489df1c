package harness

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// commandTimeout bounds a command; the machine may be slow and busy.
const commandTimeout = Settles

// Answer is what a command has printed and how it ended.
type Answer struct {
	Code        int
	Out, ErrOut string
}

// Shell runs a command line as users type it, in a folder ("" for the current one). The PATH has nodekeep and kubectl. An empty kubeconfig is the
// admin's.
func (i *Installation) Shell(t testing.TB, kubeconfig, dir, line string) Answer {
	t.Helper()
	return i.finish(t, kubeconfig, dir, "", "sh", "-c", line)
}

// Command runs nodekeep with these arguments for a user who types stdin. An empty kubeconfig is the admin's.
func (i *Installation) Command(t testing.TB, kubeconfig, stdin string, args ...string) Answer {
	t.Helper()
	return i.finish(t, kubeconfig, "", stdin, i.Binary(), args...)
}

func (i *Installation) finish(t testing.TB, kubeconfig, dir, stdin, name string, args ...string) Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), commandTimeout) // also where a test ends
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Stdin, command.Env = dir, strings.NewReader(stdin), i.Environment(kubeconfig)
	var out, errOut bytes.Buffer
	command.Stdout, command.Stderr = &out, &errOut
	err := command.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return Answer{Code: command.ProcessState.ExitCode(), Out: out.String(), ErrOut: errOut.String()}
}

// Environment returns that of a user's shell.
func (i *Installation) Environment(kubeconfig string) []string {
	if kubeconfig == "" {
		kubeconfig = i.AdminKubeconfig()
	}
	home := filepath.Dir(i.Binary())
	path := []string{home, filepath.Dir(Binary("kubectl")), os.Getenv("PATH")}
	return []string{"KUBECONFIG=" + kubeconfig, "HOME=" + home, "PATH=" + strings.Join(path, string(filepath.ListSeparator))}
}

// RequireDone is for commands that must do what they were asked for, and print nothing on stderr.
func (a Answer) RequireDone(t testing.TB) Answer {
	t.Helper()
	require.Equal(t, 0, a.Code, a.ErrOut)
	require.Empty(t, a.ErrOut)
	return a
}
