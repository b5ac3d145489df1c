package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAProcessIsProbedThroughASocketThatAnEarlierOneLeftBehind(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "probes.sock")
	earlier, err := net.Listen("unix", socket)
	require.NoError(t, err)
	earlier.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, earlier.Close())
	require.ErrorContains(t, probe(t.Context(), socket, "healthz"), "connection refused", "nobody serves on it")

	var ready atomic.Bool
	checks := []check{{name: "records", ok: func() error {
		if !ready.Load() {
			return errors.New("still being read")
		}
		return nil
	}}}
	ctx, stop := context.WithCancel(t.Context())
	p := &process{options: &commonOptions{}, logger: slog.New(slog.DiscardHandler)}
	served := make(chan error)
	go func() { served <- p.serveHTTP(ctx, unixSocket+socket, probes(checks), nil, 0) }()
	require.Eventually(t, func() bool { return probe(t.Context(), socket, "healthz") == nil }, time.Minute, 10*time.Millisecond)
	require.ErrorContains(t, probe(t.Context(), socket, "readyz"), "[-] records: still being read", "the kubelet's Event shows why")
	ready.Store(true)
	require.NoError(t, probe(t.Context(), socket, "readyz"))
	stop()
	require.NoError(t, <-served)
}

func TestTheCommandThatTheKubeletProbesWithSaysWhatIsWrongWithItsArguments(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no path":        {[]string{"probe", "/run/probes.sock"}, "accepts 2 arg(s), received 1"},
		"another path":   {[]string{"probe", "/run/probes.sock", "metrics"}, `invalid argument "metrics"`},
		"nobody listens": {[]string{"probe", "/nowhere/probes.sock", "readyz"}, "ask the process: "},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := program(t, c.args...).CombinedOutput()
			require.Error(t, err)
			assert.Contains(t, string(out), c.want)
		})
	}
}

func TestAProcessWaitsForThePortOfMetricsAndLeavesItToALeaderOnItsHost(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := taken.Addr().String()
	p := &process{options: &commonOptions{metricsAddr: address}, registry: prometheus.NewRegistry(), logger: slog.New(slog.DiscardHandler)}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- p.serveMetrics(ctx) }()
	serves := func() bool { status, _ := get("http://" + address + "/metrics"); return status == 200 }
	free := func() bool {
		listener, err := net.Listen("tcp", address)
		return err == nil && listener.Close() == nil
	}

	time.Sleep(2 * portEvery) // in which a process that does not wait would have ended
	select {
	case err := <-served:
		require.Fail(t, "the process must go on without the port", "%v", err)
	default:
	}
	require.NoError(t, taken.Close())
	require.Eventually(t, serves, time.Minute, 10*time.Millisecond, "the port is free")
	p.yields.Store(true)
	require.Eventually(t, free, time.Minute, 10*time.Millisecond, "another process of the host leads")
	p.yields.Store(false)
	require.Eventually(t, serves, time.Minute, 10*time.Millisecond, "no other process of the host leads")
	stop()
	require.NoError(t, <-served)
}
