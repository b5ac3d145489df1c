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

	"nodekeep.dev/nodekeep/serve"
)

// closeTimeout is how long requests may take after the drain time.
const closeTimeout = 10 * time.Second

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
	s := &Server{drain: drain, logger: logger}
	s.http, s.listener = serve.New(listener, s.closing(handler), logger)
	s.http.TLSConfig = transport(certificate, clients)
	return s, nil
}

// Address returns where the server listens.
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
