package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// readRetry is the wait between two tries while the files are not there.
const readRetry = time.Second

// Dir serves the certificate in the files tls.crt and tls.key of a directory and follows their changes, within about ten seconds
// even where file notifications do not work. Run must be called once; the other methods may be called at any time from any
// goroutine and never wait.
type Dir struct {
	path string
	log  *slog.Logger

	watcher atomic.Pointer[certwatcher.CertWatcher] // nil until the files could be read once
	trouble atomic.Pointer[error]                   // why watcher is nil
}

// NewDir returns a Dir that does nothing until Run. The files need not be there yet.
func NewDir(path string, log *slog.Logger) *Dir {
	d := &Dir{path: path, log: log}
	first := errors.New("it has not been read yet")
	d.trouble.Store(&first)
	return d
}

// Run loads the files and follows them until ctx is done, then returns nil. Files that are missing or broken are tried again.
func (d *Dir) Run(ctx context.Context) error {
	w := d.open(ctx)
	for ctx.Err() == nil {
		// Start gives up when it could not watch the files for ten seconds; that is the pace of this loop. What is loaded stays.
		if err := w.Start(ctx); err != nil && ctx.Err() == nil {
			d.log.ErrorContext(ctx, "certificate watch ended, starting it again", "dir", d.path, "err", errors.Join(err, w.ReadCertificate()))
		}
	}
	return nil
}

// open waits for the files; it returns nil only when ctx is done. A new problem is logged, a lasting one is not repeated.
func (d *Dir) open(ctx context.Context) *certwatcher.CertWatcher {
	said := ""
	for {
		w, err := certwatcher.New(filepath.Join(d.path, "tls.crt"), filepath.Join(d.path, "tls.key"))
		if err == nil {
			d.watcher.Store(w)
			d.log.InfoContext(ctx, "serving certificate loaded", "dir", d.path, "notAfter", d.NotAfter())
			return w
		}
		d.trouble.Store(&err)
		if err.Error() != said {
			said = err.Error()
			d.log.WarnContext(ctx, "certificate cannot be loaded yet, trying again", "dir", d.path, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(readRetry):
		}
	}
}

// GetCertificate returns the certificate to serve, for [tls.Config]. It fails only before there is a first one.
func (d *Dir) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := d.current(); c != nil {
		return c, nil
	}
	return nil, d.Loaded()
}

// Loaded returns nil while there is a certificate to serve that has not expired, and otherwise an error that says what to do.
func (d *Dir) Loaded() error {
	c := d.current()
	switch {
	case c == nil:
		return fmt.Errorf("no serving certificate: put tls.crt and tls.key into %q, or wait for the issuer of the mounted secret: %w", d.path, *d.trouble.Load())
	case !time.Now().Before(c.Leaf.NotAfter):
		return fmt.Errorf("the serving certificate in %q expired on %s: renew it, the new one is loaded without a restart",
			d.path, c.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// NotAfter returns when the certificate that is served expires, or the zero time when there is none.
func (d *Dir) NotAfter() time.Time {
	if c := d.current(); c != nil {
		return c.Leaf.NotAfter
	}
	return time.Time{}
}

// NotBefore returns from when on the certificate that is served is valid, or the zero time when there is none.
func (d *Dir) NotBefore() time.Time {
	if c := d.current(); c != nil {
		return c.Leaf.NotBefore
	}
	return time.Time{}
}

func (d *Dir) current() *tls.Certificate {
	w := d.watcher.Load()
	if w == nil {
		return nil
	}
	c, _ := w.GetCertificate(nil) // never fails; a watcher that New returned has a certificate
	return c
}
