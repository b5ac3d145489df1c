package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// check is one condition of being ready: ok is nil while it holds. One without ok holds always and is there for its note.
type check struct {
	name string
	ok   func() error
	note func() string // what to say while it holds; "ok" without one
}

// line shows the state of a check.
func (c check) line() (line string, holds bool) {
	if c.ok != nil {
		if err := c.ok(); err != nil {
			return fmt.Sprintf("[-] %s: %v", c.name, err), false
		}
	}
	if c.note != nil {
		return fmt.Sprintf("[+] %s: %s", c.name, c.note()), true
	}
	return fmt.Sprintf("[+] %s: ok", c.name), true
}

// probes answers /healthz while the process lives and /readyz once every check holds; /readyz?verbose lists them.
func probes(checks []check) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		var lines []string
		status := http.StatusOK
		for _, check := range checks {
			line, holds := check.line()
			if !holds {
				status = http.StatusServiceUnavailable
			}
			lines = append(lines, line)
		}
		if status == http.StatusOK && !r.URL.Query().Has("verbose") {
			lines = []string{"ok"}
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintln(w, strings.Join(lines, "\n"))
	})
	return mux
}

// synced is a check for caches.
func synced(name string, holds func() bool) check {
	return check{name: name, ok: func() error {
		if holds() {
			return nil
		}
		return errors.New("still being read")
	}}
}

// serveHTTP serves until ctx is done; address 0 means not at all.
func serveHTTP(ctx context.Context, address string, handler http.Handler) error {
	if address == "0" {
		return nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return serveOn(ctx, listener, handler)
}

func serveOn(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
	return nil
}

// serveMetrics serves the registry of a process at /metrics: to everybody, or over TLS to those who may get it.
func serveMetrics(ctx context.Context, p *process) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{}))
	address := p.options.metricsAddr
	if !p.options.metricsSecure || address == "0" {
		return serveHTTP(ctx, address, mux)
	}
	config, err := ownCertificate()
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", address, config)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return serveOn(ctx, listener, newMetricsGuard(p.client, p.logger, mux))
}
