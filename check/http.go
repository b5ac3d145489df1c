package check

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"nodekeep.dev/nodekeep/verify"
)

// HTTP asks a URL and compares the status. It reads no body and follows no redirect.
func (t try) HTTP(asked *verify.HTTP) error {
	ctx, cancel := t.single()
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, asked.URL, nil)
	if err != nil {
		return failf(verify.ReasonError, "the URL cannot be read")
	}
	var roots *x509.CertPool
	if request.URL.Scheme == "https" {
		if roots, err = t.authorities(asked.CA); err != nil {
			return err
		}
	}
	response, err := t.pod.ask(request, roots)
	if err != nil {
		return failing(err, "GET %s", request.URL.Host)
	}
	defer func() { _ = response.Body.Close() }() // nothing more is expected of the connection
	expected := http.StatusOK
	if asked.Status != nil {
		expected = *asked.Status
	}
	if response.StatusCode == expected {
		return nil
	}
	message := failf(verify.ReasonWrongStatus, "GET %s: status %d, must be %d", request.URL.Host, response.StatusCode, expected)
	if location := response.Header.Get("Location"); location != "" {
		message.message += "; redirects are not followed, this one is to " + location[:min(len(location), maxMessage)]
	}
	return message
}

// ask sends a request over a connection of its own. One of the roots must have signed the server's certificate. The caller must close the answer's
// body, which ends the connection.
//
// It does not use a Transport, which keeps connections for later requests. If a server sends or closes too early, a Transport sometimes takes the
// connection for an idle one. Then the reason is lost.
func (p Pod) ask(request *http.Request, roots *x509.CertPool) (response *http.Response, err error) {
	ctx := request.Context()
	connection, err := p.dial(ctx, "tcp", hostAndPort(request.URL))
	if err != nil {
		failed := named(ctx, err)
		if ctx.Err() == nil {
			failed.message = dialFailure(err, request.URL.Hostname()).message
		}
		return nil, failed
	}
	stop := context.AfterFunc(ctx, func() { _ = connection.SetDeadline(time.Unix(1, 0)) })
	end := func() error {
		stop()
		return connection.Close()
	}
	defer func() {
		if err == nil {
			return
		}
		if connection.full() { // the error may be about what was cut off there
			err = errTooLarge
		}
		_ = end()
	}()
	var stream io.ReadWriter = connection
	if request.URL.Scheme == "https" {
		encrypted := tls.Client(connection, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, ServerName: request.URL.Hostname()})
		if err := encrypted.HandshakeContext(ctx); err != nil {
			return nil, named(ctx, err)
		}
		stream = encrypted
	}
	request.Header.Set("User-Agent", "nodekeep-check")
	request.Close = true
	if err := request.Write(stream); err != nil {
		return nil, named(ctx, err)
	}
	for answers := bufio.NewReader(stream); ; {
		if response, err = http.ReadResponse(answers, request); err != nil {
			return nil, named(ctx, err)
		}
		if response.StatusCode >= http.StatusOK || response.StatusCode == http.StatusSwitchingProtocols { // else the answer is still to come
			break
		}
	}
	response.Body = body{ctx, response.Body, end}
	return response, nil
}

// body is that of an answer. What is left of it when it is closed is not read.
type body struct {
	ctx    context.Context
	reader io.Reader
	end    func() error
}

func (b body) Read(p []byte) (int, error) {
	n, err := b.reader.Read(p)
	if err != nil && b.ctx.Err() != nil {
		err = b.ctx.Err()
	}
	return n, err
}

func (b body) Close() error { return b.end() }

// hostAndPort returns where to connect for a URL.
func hostAndPort(u *url.URL) string {
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), u.Scheme)) // the schemes are the names of the ports
}

// named returns the failure of a request. The network and TLS have reasons of their own; the rest is an answer that is no HTTP.
func named(ctx context.Context, err error) failure {
	failed := asFailure(cmp.Or(ctx.Err(), err))
	if failed.reason == verify.ReasonError {
		failed.reason = verify.ReasonBadAnswer
	}
	return failed
}
