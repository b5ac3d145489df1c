package serve

import (
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Timeouts of a server. An API server keeps idle connections for 90 s, so ours must live longer. Otherwise it would sometimes send a review into a
// connection that is being closed. It does not try that call again. So the server is net/http's: controller-runtime's has an idle timeout of the
// same 90 s, which cannot be set.
//
// Callers send a request in one go. A client that takes longer than readTimeout occupies the process. The timeout applies to the handshake. It also
// applies from the first byte of a request to the last byte of its body.
const (
	idleTimeout  = 150 * time.Second
	readTimeout  = 2 * time.Second
	writeTimeout = 10 * time.Second
)

// maxHeaderBytes is many times what an API server or Prometheus sends.
const maxHeaderBytes = 16 << 10

// New bounds what callers can take of the process: their connections, and the time and the headers of a request. The server serves on the listener
// that New returns.
func New(listener net.Listener, handler http.Handler, logger *slog.Logger) (*http.Server, net.Listener) {
	bounded := newConnections(listener, maxConnections)
	return &http.Server{
		Handler:           handler,
		ConnState:         bounded.track,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		IdleTimeout:       idleTimeout,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
	}, bounded
}

// AddressOf returns a remote address without its port.
func AddressOf(remote string) string {
	if address, _, err := net.SplitHostPort(remote); err == nil {
		return address
	}
	return remote
}
