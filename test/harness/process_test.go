package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProcess(t *testing.T) {
	t.Run("takes arguments and environment and writes its log", func(t *testing.T) {
		p := shell(t, `echo "$GREETING, $1"; echo oops >&2`, "world")
		require.NoError(t, p.Wait())
		log, err := os.ReadFile(p.LogPath())
		require.NoError(t, err)
		assert.Equal(t, "hello, world\noops\n", string(log))
	})
	t.Run("shows how it ended", func(t *testing.T) {
		p := shell(t, "exit 3")
		var exit *exec.ExitError
		require.ErrorAs(t, p.Wait(), &exit)
		assert.Equal(t, 3, exit.ExitCode())
		assert.NoError(t, p.Stop(), "an ended process is stopped already")
		assert.NoError(t, p.Kill())
	})
	t.Run("stops with SIGTERM, so that it can clean up", func(t *testing.T) {
		p := shell(t, `trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done`)
		awaitLog(t, p, "ready\n")
		require.NoError(t, p.Stop())
		require.NoError(t, p.Wait())
		awaitLog(t, p, "ready\nbye\n")
	})
	t.Run("is killed when it does not heed SIGTERM", func(t *testing.T) {
		p := shell(t, `trap '' TERM; echo ready; while :; do sleep 0.05; done`)
		awaitLog(t, p, "ready\n")
		p.grace = 200 * time.Millisecond
		require.ErrorContains(t, p.Stop(), "killed, it did not end within 200ms")
		assert.False(t, p.running())
	})
	t.Run("does nothing while it is paused, and goes on", func(t *testing.T) {
		p := shell(t, `trap 'echo went on' CONT; echo ready; while :; do sleep 0.05; done`)
		awaitLog(t, p, "ready\n")
		require.NoError(t, p.Pause())
		require.NoError(t, p.Resume())
		awaitLog(t, p, "ready\nwent on\n")
		require.NoError(t, p.Stop())
	})
	t.Run("stops also when it is paused", func(t *testing.T) {
		p := shell(t, "sleep 600 & wait")
		require.NoError(t, p.Pause())
		require.NoError(t, p.Stop())
		assert.False(t, p.running())
	})
	t.Run("does not start when there is no such program", func(t *testing.T) {
		_, err := StartProcess(Command{Name: "ghost", Path: filepath.Join(t.TempDir(), "ghost"), Log: filepath.Join(t.TempDir(), "log")})
		assert.ErrorContains(t, err, "start ghost")
	})
}

func TestStopDetached(t *testing.T) {
	t.Run("stops the process that was recorded", func(t *testing.T) {
		dir, p := t.TempDir(), shell(t, "exec sleep 600")
		require.NoError(t, recordPID(dir, p))
		require.NoError(t, StopDetached(dir))
		assert.Error(t, p.Wait())
	})
	t.Run("spares a process that has the id of one that was recorded", func(t *testing.T) {
		dir, p := t.TempDir(), shell(t, "exec sleep 600")
		require.NoError(t, recordPID(dir, p))
		entries, err := readPIDs(dir)
		require.NoError(t, err)
		o := entries[0]
		o.start += "0"
		require.NoError(t, o.stop())
		assert.True(t, p.running())
		assert.True(t, entries[0].running())
	})
	t.Run("keeps the order of stopping when a process is started again", func(t *testing.T) {
		dir := t.TempDir()
		a, b := shell(t, "exec sleep 600"), shell(t, "exec sleep 600")
		a.command.Name, b.command.Name = "a", "b"
		require.NoError(t, recordPID(dir, a))
		require.NoError(t, recordPID(dir, b))
		reread := shell(t, "exec sleep 600")
		reread.command.Name = "a"
		require.NoError(t, recordPID(dir, reread))
		entries, err := readPIDs(dir)
		require.NoError(t, err)
		require.Len(t, entries, 2)
		assert.Equal(t, reread.Pid(), entries[0].pid)
		assert.Equal(t, b.Pid(), entries[1].pid)
	})
}

func TestStartGivesUpAtOnceOnATakenPort(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane: run without -short")
	}
	taken := occupied(t)
	t.Setenv("TMPDIR", t.TempDir())
	for name, lost := range map[string]func(*ports){
		"that of etcd":           func(p *ports) { p.etcd = taken },
		"that of the API server": func(p *ports) { p.apiServer = taken },
	} {
		t.Run(name, func(t *testing.T) {
			p, err := freePorts()
			require.NoError(t, err)
			lost(&p)
			_, err = start(t.Context(), Options{}, p)
			require.ErrorIs(t, err, errPortTaken)
			left, err := os.ReadDir(os.TempDir())
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}

// shell starts a script that dies with the test.
func shell(t *testing.T, script string, args ...string) *Process {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	p, err := StartProcess(Command{
		Name: "script",
		Path: "sh",
		Args: append([]string{"-c", script, "sh"}, args...),
		Env:  []string{"GREETING=hello"},
		Log:  filepath.Join(t.TempDir(), "logs", "script.log"),
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Kill()) })
	return p
}

func awaitLog(t *testing.T, p *Process, want string) {
	t.Helper()
	assert.Eventually(t, func() bool {
		log, err := os.ReadFile(p.LogPath())
		return err == nil && string(log) == want
	}, Settles, 10*time.Millisecond)
}
