package check

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync/atomic"
)

// maxRead is how many bytes a connection reads at most, those of TLS included. A chain of certificates has some 5 KiB, the answer to a
// SelfSubjectReview less than 1 KiB.
const maxRead = 128 * 1024

// credentials is the folder in a Pod with its account's token, the API server's CA and the Pod's namespace.
const credentials = "/var/run/secrets/kubernetes.io/serviceaccount"

// Pod is what a worker knows of the Pod that it runs in.
type Pod struct {
	APIServer   string // HOST:PORT of the Service kubernetes; empty outside of a cluster
	Credentials string // directory with token, ca.crt and namespace
	// Dial connects; nil does so with net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// ThisPod returns the Pod of this process.
func ThisPod(getenv func(string) string) Pod {
	pod := Pod{Credentials: credentials}
	if host := getenv("KUBERNETES_SERVICE_HOST"); host != "" {
		pod.APIServer = net.JoinHostPort(host, cmp.Or(getenv("KUBERNETES_SERVICE_PORT"), "443"))
	}
	return pod
}

// dial connects. The connection reads at most [maxRead] bytes.
func (p Pod) dial(ctx context.Context, network, address string) (*bounded, error) {
	dial := p.Dial
	if dial == nil {
		dial = (&net.Dialer{Resolver: &net.Resolver{PreferGo: true}}).DialContext
	}
	connection, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &bounded{Conn: connection}, nil
}

// errTooLarge is what a connection returns that has read [maxRead] bytes.
var errTooLarge = errors.New("the answer is too large")

// bounded is a connection that reads at most [maxRead] bytes.
type bounded struct {
	net.Conn
	read atomic.Int64
}

func (b *bounded) Read(p []byte) (int, error) {
	room := maxRead - b.read.Load()
	if room <= 0 {
		return 0, errTooLarge
	}
	n, err := b.Conn.Read(p[:min(int64(len(p)), room)])
	b.read.Add(int64(n))
	return n, err
}

// full reports whether the connection reads no further.
func (b *bounded) full() bool { return b.read.Load() >= maxRead }
