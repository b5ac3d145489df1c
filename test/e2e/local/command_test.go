package local

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// nodekeep runs a command of an operator outside the cluster and returns what it prints.
func (c *cluster) nodekeep(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), binary(t), append(args, "--kubeconfig", c.kubeconfig)...)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "nodekeep %v: %s", args, out)
	return string(out)
}

// binary returns the path of nodekeep on this computer.
func binary(t *testing.T) string {
	t.Helper()
	return filepath.Join(built(t), binariesFolder, runtime.GOOS, runtime.GOARCH, "nodekeep")
}
