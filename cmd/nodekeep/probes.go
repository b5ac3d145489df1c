package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/serve"
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

// synced returns a check for caches.
func synced(name string, holds func() bool) check {
	return check{name: name, ok: func() error {
		if holds() {
			return nil
		}
		return errors.New("still being read")
	}}
}

// unixSocket is how the address of a socket in the file system begins. The rest is its path.
const unixSocket = "unix:"

// listen opens an address. A socket that a container left behind, which ended in the same Pod, makes way.
func listen(address string) (net.Listener, error) {
	path, isSocket := strings.CutPrefix(address, unixSocket)
	if !isSocket {
		return net.Listen("tcp", address)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}

// serveHTTP serves until ctx is done; address 0 means not at all. With a TLS configuration it serves HTTPS. The write timeout is that of package
// serve, unless one is given.
func (p *process) serveHTTP(ctx context.Context, address string, handler http.Handler, secure *tls.Config, writeTimeout time.Duration) error {
	if address == "0" {
		return nil
	}
	listener, err := listen(address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server, bounded := serve.New(listener, handler, p.logger)
	if writeTimeout > 0 {
		server.WriteTimeout = writeTimeout
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	begin := func() error { return server.Serve(bounded) }
	if secure != nil {
		server.TLSConfig = secure
		server.Protocols = new(http.Protocols) // one connection of HTTP/2 would hold 250 requests
		server.Protocols.SetHTTP1(true)
		begin = func() error { return server.ServeTLS(bounded, "", "") }
	}
	if err := begin(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
	return nil
}
