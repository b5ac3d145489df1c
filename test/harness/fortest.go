package harness

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// ForTest starts a cluster that lives as long as the test and fails the test when it does not start. When the test fails,
// the folder stays and the test's log shows where. Ctrl-C stops the cluster before it ends the test. Under -short the
// test is skipped: that distinguishes tests which need a control plane from the others.
func ForTest(t testing.TB, options Options) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane: run without -short")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var c *Cluster
	started := make(chan struct{})
	release := onInterrupt(func() {
		cancel()
		<-started
		if c != nil {
			_ = c.Stop()
		}
	})
	t.Cleanup(release)
	c, err := StartCluster(ctx, options)
	close(started)
	t.Cleanup(cancel)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.keepDir()
		}
		if err := c.Stop(); err != nil {
			t.Errorf("stop cluster: %v", err)
		}
		if t.Failed() {
			t.Logf("logs of the control plane are in %s", filepath.Join(c.dir, logsDir))
		}
	})
	return c
}

// onInterrupt calls stop on Ctrl-C or SIGTERM and then lets the signal do what it would have done. The last of several
// callers to let go is the one whose signal ends the process.
func onInterrupt(stop func()) (release func()) {
	interrupts := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-done:
			signal.Stop(interrupts)
		case s := <-interrupts:
			stop()
			signal.Stop(interrupts)
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Signal(s)
			}
		}
	}()
	return func() { close(done) }
}
