package faults

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// balancer stands for a Service: it hands each new connection to one of the replicas that it knows to be ready. It learns of
// a change late, as kube-proxy does, and leaves connections alone that are there.
type balancer struct {
	address string
	broken  atomic.Int64 // connections for which no replica was there

	mu       sync.Mutex
	replicas map[string]bool // by address: in rotation
}

func startBalancer(t testing.TB) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &balancer{address: listener.Addr().String(), replicas: map[string]bool{}}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			accepted, err := listener.Accept()
			if err != nil {
				return
			}
			go b.relay(accepted)
		}
	}()
	return b
}

// follow takes the replica in and out of rotation as its readiness changes, until the process has ended.
func (b *balancer) follow(r *harness.Replica) {
	const lookEvery, lag = 50 * time.Millisecond, 700 * time.Millisecond
	rotates := func(ready bool) {
		time.AfterFunc(lag, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.replicas[r.Address] = ready
		})
	}
	for last := false; ; {
		if ready := r.Ready(); ready != last {
			last = ready
			rotates(ready)
		}
		select {
		case <-r.Process.Exited():
			rotates(false)
			return
		case <-time.After(lookEvery):
		}
	}
}

func (b *balancer) serves(r *harness.Replica) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.replicas[r.Address]
}

func (b *balancer) pick() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var in []string
	for address, rotates := range b.replicas {
		if rotates {
			in = append(in, address)
		}
	}
	if len(in) == 0 {
		return ""
	}
	return in[rand.IntN(len(in))]
}

func (b *balancer) relay(caller net.Conn) {
	defer caller.Close()
	callee, err := net.Dial("tcp", b.pick())
	if err != nil {
		b.broken.Add(1)
		return
	}
	defer callee.Close()
	go func() {
		_, _ = io.Copy(callee, caller)
		_ = callee.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(caller, callee)
}

// The API server is given no loopback address, so that it speaks HTTP/1.1, as it does to a Service.
func TestARollingRestartUnderLoadMissesNoRestoreRefusesNoRegistrationAndDropsNoCall(t *testing.T) {
	const rounds = 3
	require.NoError(t, nodekeep.StopWebhook())
	t.Cleanup(func() { require.NoError(t, nodekeep.StartWebhook(context.WithoutCancel(t.Context()))) })
	b := startBalancer(t)
	start := func() *harness.Replica {
		r := nodekeep.StartReplica(t, "webhook", "--cert-names", loopback+","+unspecified, "--drain", "10s") // the default
		go b.follow(r)
		return r
	}
	inRotation := func(r *harness.Replica) {
		require.Eventually(t, func() bool { return b.serves(r) }, harness.Settles, 10*time.Millisecond)
	}
	replicas := []*harness.Replica{start(), start(), start()}
	for _, r := range replicas {
		inRotation(r)
	}
	t.Cleanup(pointAt(t, viaHTTP1(b.address), nil))
	untilCalled(t, true)
	stop := startLoad(t, "rolling", 8, ordinary)
	prev, began := webhookCalls(t), time.Now()
	var old *harness.Replica
	for range rounds {
		for n := range replicas {
			old, replicas[n] = replicas[n], start()
			inRotation(replicas[n])
			require.NoError(t, syscall.Kill(old.Process.Pid(), syscall.SIGTERM)) // and it drains meanwhile
		}
	}
	<-old.Process.Exited()
	l := stop()
	made := webhookCalls(t).minus(prev)
	t.Logf("%d replicas replaced in %s; %d connections found no replica", rounds*len(replicas), round(time.Since(began)), b.broken.Load())
	l.whole(t)
	made.served(t, l)
	assert.Zero(t, b.broken.Load())
	for _, r := range replicas {
		require.NoError(t, r.Process.Kill())
	}
}
