package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"nodekeep.dev/nodekeep/reload"
)

// Dir serves the certificate in the files tls.crt and tls.key of a directory and follows their changes. Run must be called once; the
// other methods may be called at any time from any goroutine and never wait.
type Dir struct {
	served
	path  string
	files *reload.Files[*tls.Certificate]
}

// NewDir returns a Dir that does nothing until Run. The files need not be there yet.
func NewDir(path string, log *slog.Logger) *Dir {
	d := &Dir{path: path}
	d.files = reload.New(pairOf, func(c *tls.Certificate) {
		d.serving.Store(c)
		log.Info("serving certificate loaded", "dir", path, "notAfter", d.NotAfter())
	}, func(err error) {
		if err == nil {
			log.Info("certificate can be loaded again, and is the same", "dir", path)
			return
		}
		log.Warn("certificate cannot be loaded, trying again; the last good one is served", "dir", path, "err", err)
	}, filepath.Join(path, "tls.crt"), filepath.Join(path, "tls.key"))
	return d
}

// Run loads the files and follows them until ctx is done. Files that are missing or broken are tried again.
func (d *Dir) Run(ctx context.Context) { d.files.Run(ctx, filePoll) }

func pairOf(contents [][]byte) (*tls.Certificate, error) {
	c, err := tls.X509KeyPair(contents[0], contents[1])
	return &c, err
}

// Loaded returns nil while there is an unexpired certificate to serve. Otherwise, it returns an error that says what to do.
func (d *Dir) Loaded() error {
	trouble := d.files.Err()
	if trouble == nil {
		trouble = errors.New("it has not been read yet")
	}
	switch c := d.serving.Load(); {
	case c == nil:
		return fmt.Errorf("no serving certificate: put tls.crt and tls.key into %q, or wait for the issuer of the mounted secret: %w", d.path, trouble)
	case !time.Now().Before(c.Leaf.NotAfter):
		return fmt.Errorf("the serving certificate in %q expired on %s: renew it, the new one is loaded without a restart",
			d.path, c.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}
