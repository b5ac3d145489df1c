package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/inventory"
	"nodekeep.dev/nodekeep/reload"
)

// Bounds of one request.
const (
	longestRead = time.Minute
	maxHeader   = 64 << 10
	maxVersion  = 1 << 10 // bytes of an ETag; a longer one is not used
	maxToken    = 64 << 10
)

// Key is the key of a ConfigMap that holds an inventory.
const Key = "inventory.json"

// ConfigMap reads the key [Key] of a ConfigMap, and the version of it.
type ConfigMap func(ctx context.Context, name string) (content []byte, version string, err error)

// Result is what a read has found.
type Result struct {
	Snapshot  inventory.Snapshot
	Unchanged bool   // since the version that was given; then there is no snapshot
	Version   string // of a source that has versions; empty: none
}

// Fetcher reads one source. It is not safe for concurrent use.
type Fetcher struct {
	source      inventory.Source
	configMap   ConfigMap
	timeout     time.Duration
	token       *reload.Files[string]
	authorities *reload.Files[*x509.CertPool]
}

// New makes a fetcher. It reads nothing yet. The folder mounts is where files are that the source names below [inventory.Mounts].
func New(source inventory.Source, configMap ConfigMap, mounts string) *Fetcher {
	for _, file := range []*string{&source.File, &source.TokenFile, &source.CA} {
		if name, below := strings.CutPrefix(*file, inventory.Mounts); below {
			*file = filepath.Join(mounts, name)
		}
	}
	f := &Fetcher{source: source, configMap: configMap, timeout: longestRead}
	if source.TokenFile != "" {
		f.token = reload.New(parseToken, func(string) {}, func(error) {}, source.TokenFile)
	}
	if source.CA != "" {
		f.authorities = reload.New(parseAuthorities, func(*x509.CertPool) {}, func(error) {}, source.CA)
	}
	return f
}

// Get reads the source once. version is that of the last [Result], empty: there is none. The error is an [Error].
func (f *Fetcher) Get(ctx context.Context, version string) (result Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	err = contain.Call(func() (err error) {
		switch {
		case f.source.URL != "":
			result, err = f.getURL(ctx, version)
		case f.source.File != "":
			result.Snapshot, err = f.getFile()
		default:
			result, err = f.getConfigMap(ctx, version)
		}
		return err
	})
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded): // a connection that is closed then can look as if the answer had ended
		return Result{}, failed(Timeout, fmt.Errorf("it took longer than %v: %w", f.timeout, err))
	case err != nil:
		return Result{}, failed(ReasonOf(err), err)
	}
	return result, nil
}

func (f *Fetcher) getURL(ctx context.Context, version string) (Result, error) {
	client, err := f.client()
	if err != nil {
		return Result{}, failed(Credentials, err)
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.source.URL, nil)
	if err != nil {
		return Result{}, failed(Connect, err)
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Accept-Encoding", "identity")
	request.Header.Set("User-Agent", "nodekeep-capture")
	if version != "" {
		request.Header.Set("If-None-Match", version)
	}
	if f.token != nil {
		token, err := current(f.token)
		if err != nil {
			return Result{}, failed(Credentials, fmt.Errorf("token: %w", err))
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		var wrapper *url.Error
		if errors.As(err, &wrapper) {
			err = wrapper.Err // without the URL, which the policy has
		}
		return Result{}, failed(reasonOfConnection(err), err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := check(response, version); err != nil {
		return Result{}, err
	}
	if response.StatusCode == http.StatusNotModified {
		return Result{Unchanged: true, Version: version}, nil
	}
	next, err := read(response.Body, f.source)
	if err != nil {
		return Result{}, err
	}
	return Result{Snapshot: next, Version: versionOf(response)}, nil
}

// check refuses answers without reading their bodies.
func check(response *http.Response, version string) error {
	code := response.StatusCode
	switch {
	case code == http.StatusNotModified && version == "":
		return failed(NotModified, errors.New("answered 304 Not Modified, and nothing was read before"))
	case code == http.StatusNotModified:
		return nil
	case code >= 300 && code < 400:
		return failed(Redirect, fmt.Errorf("answered %d: redirects are not followed", code))
	case code != http.StatusOK:
		return failed(Status, fmt.Errorf("answered %d", code))
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return failed(Encoding, fmt.Errorf("the answer has the encoding %.40q: compressed answers are not read", encoding))
	}
	if response.ContentLength > MaxBytes {
		return failed(TooLarge, errTooLarge)
	}
	return nil
}

// versionOf returns the ETag, if it can be sent back.
func versionOf(response *http.Response) string {
	etag := response.Header.Get("ETag")
	if len(etag) > maxVersion || strings.ContainsFunc(etag, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return etag
}

// client makes one connection for one request. So a certificate that was replaced or has expired counts at once.
func (f *Fetcher) client() (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.authorities != nil {
		authorities, err := current(f.authorities)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		config.RootCAs = authorities
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// current reads files anew. While they are missing or bad, the last good value is used.
func current[T any](files *reload.Files[T]) (T, error) {
	files.Read()
	value, ok := files.Value()
	if !ok {
		return value, files.Err()
	}
	return value, nil
}

func parseToken(contents [][]byte) (string, error) {
	token := string(bytes.TrimSpace(contents[0]))
	if token == "" || len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("the file holds no token of visible ASCII characters")
	}
	return token, nil
}

func parseAuthorities(contents [][]byte) (*x509.CertPool, error) {
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(contents[0]) {
		return nil, errors.New("the file holds no certificate in PEM")
	}
	return authorities, nil
}

// getFile reads a file. One that is no regular file could keep the reader for ever.
func (f *Fetcher) getFile() (inventory.Snapshot, error) {
	info, err := os.Stat(f.source.File)
	if err != nil {
		return inventory.Snapshot{}, failed(Unreadable, err)
	}
	if !info.Mode().IsRegular() {
		return inventory.Snapshot{}, failed(Unreadable, fmt.Errorf("%s is no regular file", f.source.File))
	}
	file, err := os.Open(f.source.File)
	if err != nil {
		return inventory.Snapshot{}, failed(Unreadable, err)
	}
	defer func() { _ = file.Close() }()
	next, err := read(file, f.source)
	var known *Error
	if err != nil && !errors.As(err, &known) {
		err = failed(Unreadable, err)
	}
	return next, err
}

func (f *Fetcher) getConfigMap(ctx context.Context, version string) (Result, error) {
	content, now, err := f.configMap(ctx, f.source.ConfigMap)
	if err != nil {
		return Result{}, failed(Unreadable, err)
	}
	if version != "" && now == version {
		return Result{Unchanged: true, Version: version}, nil
	}
	next, err := read(bytes.NewReader(content), f.source)
	if err != nil {
		return Result{}, err
	}
	return Result{Snapshot: next, Version: now}, nil
}
