package webhook_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/webhook"
)

// running is a server that serves until it is stopped.
type running struct {
	*webhook.Server
	roots  *x509.CertPool
	stop   context.CancelFunc
	served chan error
}

func startServer(t *testing.T, drain time.Duration, handler http.Handler) *running {
	t.Helper()
	certificate, roots := newCertificate(t)
	return startServerFor(t, drain, handler, roots, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate, nil }, nil)
}

func startServerFor(t *testing.T, drain time.Duration, handler http.Handler, roots *x509.CertPool, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), clients *webhook.Clients) *running {
	t.Helper()
	server, err := webhook.NewServer("127.0.0.1:0", handler, certificate, clients, drain, quiet())
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	s := &running{Server: server, roots: roots, stop: stop, served: make(chan error, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.served <- server.Serve(ctx)
	}()
	t.Cleanup(func() {
		stop()
		awaitClosed(t, ended)
	})
	return s
}

func (s *running) url() string { return "https://" + s.Address() }

func (s *running) client(change func(*http.Transport)) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots}}
	change(transport)
	return &http.Client{Transport: transport, Timeout: patience}
}

func (s *running) awaitEnd(t *testing.T) error {
	t.Helper()
	select {
	case err := <-s.served:
		return err
	case <-time.After(patience):
		t.Fatal("the server does not end")
		return nil
	}
}

// awaitNoListener waits until nobody takes connections at the address any more.
func (s *running) awaitNoListener(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		connection, err := net.Dial("tcp", s.Address())
		if err == nil {
			_ = connection.Close()
		}
		return err != nil
	}, patience, time.Millisecond)
}

func awaitClosed(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("nothing happens")
	}
}

type answer struct {
	status int
	body   string
	close  bool // the server asked to close the connection
	tls    uint16
	err    error
}

func get(client *http.Client, url string) answer {
	response, err := client.Get(url)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, string(body), response.Close, response.TLS.Version, err}
}

func countingDialer(count *atomic.Int32) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		count.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}
}

// newCertificate returns a serving certificate for 127.0.0.1 that vouches for itself.
func newCertificate(t *testing.T) (*tls.Certificate, *x509.CertPool) {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &s.TLS.Certificates[0], roots
}
