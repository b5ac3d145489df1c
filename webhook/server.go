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

// Timeouts of the server. The API server keeps idle connections for 90 s, so ours must live longer, or it would now and
// then send a review into a connection that is being closed, and that call is not tried again. (This is why the server
// is net/http's and not controller-runtime's, whose idle timeout is those same 90 s and cannot be set.)
//
// The API server sends a review in one go. A caller that takes longer than readTimeout for the handshake, or from the first byte
// of a request to the last one of its body, occupies the webhook.
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

// NewServer listens on the address; from here on connections are accepted and wait for [Server.Serve]. drain is how long
// it goes on serving after it was told to stop, for the endpoints to be taken out of the Service.
//
// clients says who may call; nil is everybody.
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

// Draining reports whether the server was told to stop; readiness must fail from then on.
func (s *Server) Draining() bool { return s.draining.Load() }

// Serve answers until ctx is done, then goes on for the drain time and ends with the last request answered.
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
