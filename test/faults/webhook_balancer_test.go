package faults

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// balancer stands for a Service: it hands each new connection to one of the replicas that it knows to be ready. It learns of
// a change late, as kube-proxy does, and leaves connections alone that are there.
type balancer struct {
	address string
	lag     time.Duration
	broken  atomic.Int64 // connections for which no replica was there

	mu       sync.Mutex
	replicas map[string]bool // by address: in rotation
}

const (
	lookEvery = 50 * time.Millisecond
	lag       = 700 * time.Millisecond
)

func startBalancer(t testing.TB) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &balancer{address: listener.Addr().String(), lag: lag, replicas: map[string]bool{}}
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
func (b *balancer) follow(r *replica) {
	var last bool
	for {
		ready := r.ready()
		if ready != last {
			last = ready
			time.AfterFunc(b.lag, func() {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.replicas[r.address] = ready
			})
		}
		select {
		case <-r.process.Exited():
			time.AfterFunc(b.lag, func() {
				b.mu.Lock()
				defer b.mu.Unlock()
				delete(b.replicas, r.address)
			})
			return
		case <-time.After(lookEvery):
		}
	}
}

func (b *balancer) serves(r *replica) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.replicas[r.address]
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
