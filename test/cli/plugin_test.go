package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asPlugin makes the links of `make plugin` and returns the folder.
func asPlugin(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"kubectl-nodekeep", "kubectl_complete-nodekeep"} {
		require.NoError(t, os.Symlink(nodekeep.Binary(), filepath.Join(dir, name)))
	}
	return dir
}

func TestKubectlFindsThePluginAndItsHelpSpeaksOfIt(t *testing.T) {
	register(t, "plugin-1")
	edit(t, "plugin-1", map[string]string{"a": "1"})
	inPath := `PATH="` + asPlugin(t) + `:$PATH" `

	a := shell(t, t.TempDir(), inPath+"kubectl nodekeep show plugin-1").RequireDone(t)
	assert.Contains(t, a.Out, "Node:        plugin-1")

	help := shell(t, t.TempDir(), inPath+"kubectl nodekeep show --help").RequireDone(t).Out
	assert.Contains(t, help, "kubectl nodekeep show NODE [--history")
	assert.Contains(t, help, "  kubectl nodekeep show worker-1\n")
	assert.NotContains(t, strings.ReplaceAll(help, "kubectl nodekeep", ""), "nodekeep show")
	assert.Contains(t, help, `Use "kubectl nodekeep --help"`)
}

func TestMakePluginPutsTheLinksNextToTheBinary(t *testing.T) {
	command := exec.CommandContext(t.Context(), "make", "-n", "--warn-undefined-variables", "plugin")
	command.Dir = filepath.Join("..", "..")
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
	root, err := filepath.Abs(command.Dir)
	require.NoError(t, err)
	root, err = filepath.EvalSymlinks(root) // as make does
	require.NoError(t, err)
	assert.Contains(t, string(out), "ln -sf nodekeep "+root+"/.bin/kubectl-nodekeep\n")
	assert.Contains(t, string(out), "ln -sf nodekeep "+root+"/.bin/kubectl_complete-nodekeep\n")
	assert.NotContains(t, string(out), "undefined variable")
}

func TestNodeNamesAreCompletedFromTheClusterAlsoThroughKubectl(t *testing.T) {
	register(t, "complete-here")
	edit(t, "complete-here", map[string]string{"a": "1"})
	register(t, "complete-gone")
	edit(t, "complete-gone", map[string]string{"a": "1"})
	remove(t, "complete-gone")

	const want = "complete-gone\ncomplete-here\n:4\n"
	for _, command := range []string{"show", "explain", "rollback", "forget", "release", "recheck"} {
		assert.Equal(t, want, run(t, "__complete", command, "complete-").Out, command)
	}
	assert.Equal(t, want, shell(t, t.TempDir(), `PATH="`+asPlugin(t)+`:$PATH" kubectl_complete-nodekeep show complete-`).Out)
	assert.Contains(t, shell(t, t.TempDir(), `PATH="`+asPlugin(t)+`:$PATH" kubectl __complete nodekeep show complete-`).Out, "complete-gone\ncomplete-here\n", "kubectl asks the program by that name")
	assert.Equal(t, ":4\n", run(t, "__complete", "show", "one", "complete-").Out, "a second argument is none")
	assert.Equal(t, ":4\n", run(t, "__complete", "show", "--server", "https://127.0.0.1:1", "complete-").Out, "what goes wrong completes nothing")
	assert.Contains(t, run(t, "__complete", "list", "-o", "").Out, "yaml\n")
	for _, sh := range []string{"bash", "zsh", "fish", "powershell"} {
		assert.Contains(t, run(t, "completion", sh).RequireDone(t).Out, "__complete", sh)
	}
}
