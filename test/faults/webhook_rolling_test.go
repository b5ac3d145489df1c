package faults

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The API server is given no loopback address, so that it speaks HTTP/1.1, as it does to a Service.
func TestARollingRestartUnderLoadMissesNoRestoreRefusesNoRegistrationAndDropsNoCall(t *testing.T) {
	const rounds = 3
	require.NoError(t, nodekeep.StopWebhook())
	b := startBalancer(t)
	started := 0
	start := func() *replica {
		started++
		r := startReplica(t, fmt.Sprintf("webhook-replica-%d", started), "--self-signed", "--cert-names", loopback+","+unspecified, "--drain", "2500ms")
		go b.follow(r)
		return r
	}
	inRotation := func(r *replica) {
		require.Eventually(t, func() bool { return b.serves(r) }, settles, 10*time.Millisecond)
	}
	replicas := []*replica{start(), start(), start()}
	for _, r := range replicas {
		inRotation(r)
	}
	back := pointAt(t, viaHTTP1(b.address), nil)
	defer func() {
		back()
		require.NoError(t, nodekeep.StartWebhook(t.Context()))
	}()
	untilCalled(t, true)
	stop := startLoad(t, "rolling", 8, ordinary)
	before, began := webhookCalls(t), time.Now()
	for range rounds {
		for n, old := range replicas {
			replicas[n] = start()
			inRotation(replicas[n])
			terminate(t, old)
		}
	}
	time.Sleep(3 * time.Second) // the last one drains
	l := stop()
	made := webhookCalls(t).since(before)
	t.Logf("%d replicas replaced in %s: %s; %s; %d connections found no replica", rounds*len(replicas), round(time.Since(began)), l, made, b.broken.Load())
	l.whole(t)
	made.served(t, l)
	assert.Zero(t, b.broken.Load())
	for _, r := range replicas {
		require.NoError(t, r.process.Kill())
	}
}

// terminate tells a replica to stop and does not wait for it.
func terminate(t testing.TB, r *replica) {
	t.Helper()
	require.NoError(t, syscall.Kill(r.process.Pid(), syscall.SIGTERM))
}
