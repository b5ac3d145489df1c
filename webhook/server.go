package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Timeouts of the server. The API server keeps idle connections for 90 s, so ours must live longer. Otherwise it would sometimes send a
// review into a connection that is being closed. It does not try that call again. So the server is net/http's: controller-runtime's has an
// idle timeout of the same 90 s, which cannot be set.
//
// The API server sends a review in one go. A client that takes longer than readTimeout occupies the webhook. The timeout applies to the
// handshake. It also applies from the first byte of a request to the last byte of its body.
const (
	idleTimeout  = 150 * time.Second
	readTimeout  = 2 * time.Second
	writeTimeout = 10 * time.Second
	closeTimeout = 10 * time.Second
)

// maxHeaderBytes is many times what an API server sends.
const maxHeaderBytes = 16 << 10

// Server serves the webhook over TLS and stops without dropping a request.
type Server struct {
	http     *http.Server
	listener net.Listener
	drain    time.Duration
	draining atomic.Bool
	logger   *slog.Logger
}

// NewServer listens on the address. From here on connections are accepted and wait for [Server.Serve]. After the end of Serve's context, it
// still serves for drain, so that the endpoints leave the Service.
//
// The parameter clients says who may call; nil is all clients.
func NewServer(address string, handler http.Handler, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), clients *Clients, drain time.Duration, logger *slog.Logger) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for webhook calls: %w", err)
	}
	bounded := newConnections(listener, maxConnections)
	s := &Server{listener: bounded, drain: drain, logger: logger}
	s.http = &http.Server{
		Handler:           s.closing(handler),
		TLSConfig:         transport(certificate, clients),
		ConnState:         bounded.follow,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		IdleTimeout:       idleTimeout,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
	}
	return s, nil
}

// Address is where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Draining reports whether the server is stopping; readiness must fail from then on.
func (s *Server) Draining() bool { return s.draining.Load() }

// Serve answers until ctx is done, then for the drain time. It ends once the last request is answered.
func (s *Server) Serve(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- s.http.ServeTLS(s.listener, "", "") }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve webhook calls: %w", err)
	case <-ctx.Done():
	}
	s.draining.Store(true)
	s.logger.Info("draining: not ready any more, still serving", "for", s.drain)
	time.Sleep(s.drain)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := s.http.Shutdown(closing); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("stop serving webhook calls: %w", err)
	}
	return nil
}

// closing asks callers to leave, connection by connection, once the server drains.
func (s *Server) closing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.Draining() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
