package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"nodekeep.dev/nodekeep/reload"
)

// filePoll is how often files are read. They are small, and mounted ones lag up to a minute anyway.
const filePoll = 2 * time.Second

// Authorities are the CA certificates in a PEM file, which may sign client certificates. It follows the file; while the file is
// missing or bad, the last good content counts. Run must be called once; the other methods may be called at any time
// from any goroutine.
type Authorities struct {
	path string
	file *reload.Files[*x509.CertPool]
}

// NewAuthorities returns Authorities that have tried the file once. It need not be there yet.
func NewAuthorities(path string, log *slog.Logger) *Authorities {
	a := &Authorities{path: path, file: reload.New(authoritiesOf,
		func(*x509.CertPool) { log.Info("authorities of client certificates loaded", "file", path) },
		func(err error) {
			if err == nil {
				log.Info("authorities of client certificates can be read again, and are the same", "file", path)
				return
			}
			log.Error("authorities of client certificates cannot be read, the last good ones count", "file", path, "error", err)
		}, path)}
	a.file.Read()
	return a
}

// Run follows the file until ctx is done.
func (a *Authorities) Run(ctx context.Context) { a.file.Run(ctx, filePoll) }

// Pool returns the authorities of the last good file, or nil before there was one.
func (a *Authorities) Pool() *x509.CertPool {
	pool, _ := a.file.Value()
	return pool
}

// Loaded returns nil once the file could be read, and otherwise an error that says what to do.
func (a *Authorities) Loaded() error {
	trouble := a.file.Err() // before the pool: it is nil only if there is one
	if a.Pool() != nil {
		return nil
	}
	return fmt.Errorf("no authority of client certificates: put PEM certificates into %q: %w", a.path, trouble)
}

// authoritiesOf reads PEM. All of it must be valid. An authority that is left out silently is an outage of the callers it has signed.
func authoritiesOf(contents [][]byte) (*x509.CertPool, error) {
	content := contents[0]
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
