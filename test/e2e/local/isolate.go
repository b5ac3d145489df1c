package local

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"nodekeep.dev/nodekeep/test/harness"
)

// isolatedVariable names the folder with all that RunTests has built, to the test binary on a machine of its own.
const isolatedVariable = "NODEKEEP_TEST_MACHINE"

// askedVariable asks for these tests, which are no part of `make test`.
const askedVariable = "NODEKEEP_E2E_LOCAL"

// startTimeout bounds the start of a control plane or a kubelet; a few seconds where the computer is idle.
const startTimeout = 3 * time.Minute

// goodbye is how long the tests may take to clean up after a signal. Then the kernel does it.
const goodbye = 60 * time.Second

// RunTests runs the tests of a package on a machine of its own. Nothing of the machine is left afterwards, however it ends. If there can be no such
// machine, it runs the tests here, and ForTest skips. Test packages in further, with build tag e2e, are compiled for it; Compiled shows where they
// are. The result is the exit code.
func RunTests(m *testing.M, further ...string) (code int) {
	flag.Parse()
	if os.Getenv(isolatedVariable) != "" || os.Getenv(askedVariable) == "" || testing.Short() || unavailable() != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "nodekeep-node-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if code != 0 {
			fmt.Fprintln(os.Stderr, "logs are kept in", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := build(stop, dir, further); err != nil {
		fmt.Fprintln(os.Stderr, "build what a node needs:", err)
		return 1
	}
	return again(stop, dir)
}

// again runs this test binary once more, on a machine of its own.
func again(stop context.Context, dir string) (code int) {
	runtime.LockOSThread() // the kernel takes the death of the thread that started the machine for that of the parent
	defer runtime.UnlockOSThread()
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	command := exec.CommandContext(stop, filepath.Join(dir, machineFile), append([]string{"isolate", "--addresses=" + serviceRange + "," + controlRange, self}, os.Args[1:]...)...)
	command.Env = append(os.Environ(), isolatedVariable+"="+dir)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.SysProcAttr = dieWithParent()
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = goodbye
	err = command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// unavailable reports why there can be no machine here, if so.
func unavailable() string {
	if runtime.GOOS != "linux" {
		return "needs Linux: a kubelet runs there only"
	}
	if !mayIsolate() {
		return "needs root, with the capability SYS_ADMIN: for namespaces, mounts and network devices"
	}
	if _, err := os.Stat(harness.Binary(kubeletBinary)); err != nil && os.Getenv("KUBEBUILDER_ASSETS") != "" {
		return "needs a kubelet, and KUBEBUILDER_ASSETS points at a folder without one: unset it and run make controlplane"
	}
	return ""
}

// ForTest starts a control plane that lives as long as the test. It skips the test where that cannot be.
func ForTest(t *testing.T, apiServerArgs ...string) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a kubelet: run without -short")
	}
	if os.Getenv(askedVariable) == "" {
		t.Skip("real kubelets take some fifteen minutes, and are no part of make test: make e2e-local")
	}
	if why := unavailable(); why != "" {
		t.Skip(why)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c, err := Start(ctx, apiServerArgs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// AddForTest is Add for tests.
func (c *Cluster) AddForTest(t *testing.T, name string, args ...string) *Kubelet {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	k, err := c.Add(ctx, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
