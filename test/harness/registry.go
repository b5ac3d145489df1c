package harness

import (
	"context"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// StartRegistry serves an empty registry of images and charts at an address on loopback, without TLS, as long as the test runs. It is crane's.
func StartRegistry(t testing.TB, address string) {
	t.Helper()
	crane, err := Tool("crane")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	server := exec.CommandContext(ctx, crane, "registry", "serve", "--address", address)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		stop()
		_ = server.Wait() // which says that it was stopped
	})
	Eventually(t, func() bool {
		connection, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = connection.Close()
		}
		return err == nil
	}, Settles, 20*time.Millisecond, "the registry at %s must serve", address)
}
