package local

import (
	"context"
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

// isolatedVariable names the folder with all that runTests has built, to the test binary on a machine of its own.
const isolatedVariable = "NODEKEEP_TEST_MACHINE"

// askedVariable asks for these tests, which are no part of `make test`.
const askedVariable = "NODEKEEP_E2E_LOCAL"

// startTimeout bounds the start of a control plane or a kubelet; a few seconds where the computer is idle.
const startTimeout = 3 * time.Minute

// goodbye is how long the tests may take to clean up after a signal. Then the kernel does it.
const goodbye = 60 * time.Second

// runTests runs the tests on a machine of their own. Nothing of the machine is left afterwards, however it ends. If there can be no such machine, it
// runs the tests here, and forTest skips. The result is the exit code.
func runTests(m *testing.M) int {
	flag.Parse()
	if os.Getenv(isolatedVariable) != "" || os.Getenv(askedVariable) == "" || testing.Short() || unavailable() != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "nodekeep-node-")
	if err == nil {
		err = resetDir(dir)
	}
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		fmt.Fprintln(os.Stderr, "logs are kept in", dir)
		return 1
	}
	return 0
}

// resetDir runs this test binary once more, on a machine of its own.
func resetDir(dir string) error {
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := build(stop, dir); err != nil {
		return fmt.Errorf("build what a node needs: %w", err)
	}
	runtime.LockOSThread() // the kernel takes the death of the thread that started the machine for that of the parent
	defer runtime.UnlockOSThread()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := exec.CommandContext(stop, filepath.Join(dir, machineFile), append([]string{"isolate", "--addresses=" + serviceRange + "," + controlRange, self}, os.Args[1:]...)...)
	command.Env = append(os.Environ(), isolatedVariable+"="+dir)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.SysProcAttr = dieWithParent()
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = goodbye
	return command.Run()
}

// unavailable reports why there can be no machine here, if so.
func unavailable() string {
	if runtime.GOOS != "linux" {
		return "needs Linux: a kubelet runs there only"
	}
	if !mayIsolate() {
		return "needs root, with the capability SYS_ADMIN: for namespaces, mounts and network devices"
	}
	for _, program := range []string{"containerd", "ctr", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			return "needs containerd, runc and CNI plugins: run make containerd"
		}
	}
	if _, err := os.Stat(harness.Binary(kubeletBinary)); err != nil && os.Getenv("KUBEBUILDER_ASSETS") != "" {
		return "needs a kubelet, and KUBEBUILDER_ASSETS points at a folder without one: unset it and run make controlplane"
	}
	return ""
}
