package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// authoritiesPoll is how often the file is read. It is small, and a mounted one lags up to a minute anyway.
const authoritiesPoll = 2 * time.Second

// Authorities are the CA certificates in a PEM file, which may sign client certificates. It follows the file; while the file is
// missing or bad, the last good content counts. Run must be called once; the other methods may be called at any time
// from any goroutine.
type Authorities struct {
	path    string
	log     *slog.Logger
	pool    atomic.Pointer[x509.CertPool] // nil until the file could be read once
	content []byte                        // of the last good file
	trouble atomic.Pointer[error]         // why the last read was no good; nil if it was
}

// NewAuthorities returns Authorities that have tried the file once. It need not be there yet.
func NewAuthorities(path string, log *slog.Logger) *Authorities {
	a := &Authorities{path: path, log: log}
	a.reload()
	return a
}

// Run follows the file until ctx is done.
func (a *Authorities) Run(ctx context.Context) {
	ticker := time.NewTicker(authoritiesPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			a.reload()
		}
	}
}

// Pool returns the authorities of the last good file, or nil before there was one.
func (a *Authorities) Pool() *x509.CertPool { return a.pool.Load() }

// Loaded returns nil once the file could be read, and otherwise an error that says what to do.
func (a *Authorities) Loaded() error {
	trouble := a.trouble.Load() // before the pool: it is nil only if there is one
	if a.pool.Load() != nil {
		return nil
	}
	return fmt.Errorf("no authority of client certificates: put PEM certificates into %q: %w", a.path, *trouble)
}

func (a *Authorities) reload() {
	content, err := os.ReadFile(a.path)
	if err == nil && bytes.Equal(content, a.content) {
		a.trouble.Store(nil)
		return
	}
	var pool *x509.CertPool
	if err == nil {
		pool, err = authoritiesOf(content)
	}
	if err != nil {
		a.report(err)
		return
	}
	a.content = content
	a.pool.Store(pool)
	a.trouble.Store(nil)
	a.log.Info("authorities of client certificates loaded", "file", a.path)
}

// report logs a new problem, and does not repeat a lasting one.
func (a *Authorities) report(err error) {
	before := a.trouble.Swap(&err)
	if before != nil && (*before).Error() == err.Error() {
		return
	}
	a.log.Error("authorities of client certificates cannot be read, the last good ones count", "file", a.path, "error", err)
}

// authoritiesOf reads PEM. All of it must be good: an authority that is left out silently is an outage of the callers it has signed.
func authoritiesOf(content []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	found := 0
	for {
		var block *pem.Block
		block, content = pem.Decode(content)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("it holds a %s, certificates are expected", block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate: %w", err)
		}
		if !certificate.IsCA {
			return nil, fmt.Errorf("certificate of %q is no authority's", certificate.Subject.CommonName)
		}
		pool.AddCert(certificate)
		found++
	}
	if found == 0 || len(bytes.TrimSpace(content)) > 0 {
		return nil, errors.New("it holds something else than PEM certificates, or nothing")
	}
	return pool, nil
}
