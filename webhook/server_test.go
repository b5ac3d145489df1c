package webhook_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/webhook"
)

// patience is how long a test waits for what should happen at once.
const patience = 3 * time.Minute

// The API server speaks HTTP/1.1 to webhooks, and HTTP/2 to those on loopback.
func TestServerAnswersWhatIsInFlightWhenToldToStop(t *testing.T) {
	for name, http2 := range map[string]bool{"over HTTP/1.1": false, "over HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entered, release := make(chan struct{}), make(chan struct{})
			s := startServer(t, 10*time.Millisecond, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(entered)
				<-release
				_, _ = io.WriteString(w, r.Proto)
			}))
			client := s.client(func(transport *http.Transport) { transport.ForceAttemptHTTP2 = http2 })
			answered := make(chan answer, 1)
			go func() { answered <- get(client, s.url()) }()
			awaitClosed(t, entered)

			s.stop()

			s.awaitNoListener(t)
			select {
			case err := <-s.served:
				t.Fatalf("the server stopped with a request in flight: %v", err)
			case a := <-answered:
				t.Fatalf("answered before it was done: %+v", a)
			default:
			}
			close(release)
			a := <-answered
			require.NoError(t, a.err)
			assert.Equal(t, http.StatusOK, a.status)
			assert.Equal(t, http2, a.body == "HTTP/2.0", a.body)
			assert.NoError(t, s.awaitEnd(t))
		})
	}
}

func TestServerGoesOnServingWhileItDrains(t *testing.T) {
	t.Parallel()
	if !servesWhileItDrains(t, 2*time.Second) {
		t.Log("that was too short on this machine now")
		require.True(t, servesWhileItDrains(t, 15*time.Second))
	}
}

// servesWhileItDrains returns false where the calls took longer than the server drains, so that nothing can be said.
func servesWhileItDrains(t *testing.T, drain time.Duration) (inTime bool) {
	t.Helper()
	var connections atomic.Int32
	s := startServer(t, drain, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "served")
	}))
	kept := s.client(func(transport *http.Transport) { transport.DialContext = countingDialer(&connections) })
	for range 3 {
		a := get(kept, s.url())
		require.NoError(t, a.err)
		assert.False(t, a.close, "connections are kept before the server drains")
	}
	require.EqualValues(t, 1, connections.Load())
	require.False(t, s.Draining())

	began := time.Now()
	s.stop()

	require.Eventually(t, s.Draining, patience, time.Millisecond)
	first := get(kept, s.url())
	connectionsOfFirst := connections.Load()
	second := get(kept, s.url())
	if time.Since(began) >= drain {
		return false
	}
	require.NoError(t, first.err, "readiness fails, but it still serves")
	assert.Equal(t, "served", first.body)
	assert.True(t, first.close, "the caller is asked to leave")
	assert.EqualValues(t, 1, connectionsOfFirst, "on the connection that it had")
	require.NoError(t, second.err, "new connections are taken")
	assert.True(t, second.close)
	assert.EqualValues(t, 2, connections.Load(), "the caller left")
	require.NoError(t, s.awaitEnd(t))
	s.awaitNoListener(t)
	return true
}

func TestServerTakesTLS13AtLeast(t *testing.T) {
	t.Parallel()
	s := startServer(t, 0, http.NotFoundHandler())
	for name, test := range map[string]struct {
		version uint16
		refused bool
	}{
		"TLS 1.1": {tls.VersionTLS11, true},
		"TLS 1.2": {tls.VersionTLS12, true},
		"TLS 1.3": {tls.VersionTLS13, false},
	} {
		t.Run(name, func(t *testing.T) {
			client := s.client(func(transport *http.Transport) {
				transport.TLSClientConfig.MinVersion, transport.TLSClientConfig.MaxVersion = test.version, test.version
			})
			a := get(client, s.url())
			if test.refused {
				require.ErrorContains(t, a.err, "protocol version")
				return
			}
			require.NoError(t, a.err)
			assert.Equal(t, test.version, a.tls)
		})
	}
}

// Otherwise callers that send their requests a byte at a time, or none, could occupy it for ever.
func TestServerLeavesACallerThatStalls(t *testing.T) {
	for name, sent := range map[string]string{
		"in the header": "POST /restore HTTP/1.1\r\n",
		"in the body":   "POST /restore HTTP/1.1\r\nHost: webhook\r\nContent-Length: 100\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, 0, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(io.Discard, r.Body)
				assert.Error(t, err)
				w.WriteHeader(http.StatusBadRequest)
			}))
			connection, err := tls.Dial("tcp", s.Address(), &tls.Config{RootCAs: s.roots})
			require.NoError(t, err)
			t.Cleanup(func() { _ = connection.Close() })
			require.NoError(t, connection.SetDeadline(time.Now().Add(patience)))
			_, err = io.WriteString(connection, sent)
			require.NoError(t, err)

			_, err = io.Copy(io.Discard, connection)

			assert.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the server closes the connection first")
		})
	}
}

func TestServerLivesWithoutACertificateUntilThereIsOne(t *testing.T) {
	t.Parallel()
	certificate, roots := newCertificate(t)
	var loaded atomic.Bool
	s := startServerFor(t, 0, http.NotFoundHandler(), roots, func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if !loaded.Load() {
			return nil, errors.New("no certificate yet")
		}
		return certificate, nil
	}, nil)
	client := s.client(func(*http.Transport) {})
	require.Error(t, get(client, s.url()).err)

	loaded.Store(true)

	assert.NoError(t, get(client, s.url()).err)
}

func TestServerThatIsRefusedItsAddress(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })

	_, err = webhook.NewServer(taken.Addr().String(), http.NotFoundHandler(), nil, nil, 0, quiet())

	assert.ErrorContains(t, err, "listen for webhook calls")
}
