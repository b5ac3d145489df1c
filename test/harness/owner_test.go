package harness

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ownerVariable makes this test binary, when it runs itself, the owner of a cluster that comes to a bad end.
const ownerVariable = "NODEKEEP_CLUSTER_OWNER"

func TestOwner(t *testing.T) {
	end := os.Getenv(ownerVariable)
	if end == "" {
		t.Skip("is run by TestClusterGoesWithItsOwner")
	}
	c := ForTest(t, Options{})
	fmt.Println("pids", c.Process(etcdName).Pid(), c.Process(apiServerName).Pid())
	if end == "fail" {
		t.Fatal("as asked")
	}
	select {} // until a signal comes
}

func TestClusterGoesWithItsOwner(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane: run without -short")
	}
	for name, end := range map[string]struct {
		signal os.Signal // nil: the owner's test fails
		left   int       // folders that stay
	}{
		"when its test fails, and its logs stay": {nil, 1},
		"on Ctrl-C, folder and all":              {os.Interrupt, 0},
		"when it is killed":                      {syscall.SIGKILL, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each owner mostly waits
			if end.signal == syscall.SIGKILL && runtime.GOOS != "linux" {
				t.Skip("only Linux shows the children")
			}
			tmp := t.TempDir()
			owner := exec.Command(os.Args[0], "-test.run=^TestOwner$", "-test.v", "-test.timeout=10m")
			owner.Env = append(os.Environ(), ownerVariable+"=wait", "TMPDIR="+tmp)
			if end.signal == nil {
				owner.Env = append(owner.Env, ownerVariable+"=fail")
			}
			out, err := owner.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, owner.Start())
			lines, etcd, apiServer := bufio.NewScanner(out), 0, 0
			for etcd == 0 && lines.Scan() {
				_, _ = fmt.Sscanf(lines.Text(), "pids %d %d", &etcd, &apiServer)
			}
			require.NotZero(t, apiServer)
			if end.signal != nil {
				require.NoError(t, owner.Process.Signal(end.signal))
			}
			for lines.Scan() { // to the end, as Wait demands
			}
			require.Error(t, owner.Wait())

			for _, pid := range []int{etcd, apiServer} {
				assert.Eventually(t, func() bool {
					_, err := startTime(pid)
					return err != nil
				}, Settles, 20*time.Millisecond)
			}
			left, err := filepath.Glob(filepath.Join(tmp, "*", logsDir, "*.log"))
			require.NoError(t, err)
			assert.Len(t, left, 2*end.left)
		})
	}
}

// occupied returns a port that a program listens on until the test ends.
func occupied(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	return port
}
