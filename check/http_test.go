package check_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/check"
	"nodekeep.dev/nodekeep/verify"
)

// httpServer serves over TLS with a certificate, or without TLS.
func httpServer(t *testing.T, certificate *tls.Certificate, handler http.HandlerFunc) (url string) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = discarded()
	if certificate == nil {
		server.Start()
	} else {
		server.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}}
		server.StartTLS()
	}
	t.Cleanup(server.Close)
	return server.URL
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestHTTPAnswers(t *testing.T) {
	ca, foreign := newAuthority(t), newAuthority(t)
	good := ca.issue(t, nil)
	expired := ca.issue(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	otherName := ca.issue(t, func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"other.example.com"} })
	manyNames := ca.issue(t, func(c *x509.Certificate) {
		c.IPAddresses = nil
		for range 1000 {
			c.DNSNames = append(c.DNSNames, strings.Repeat("x", 60)+".example.com")
		}
	})
	hugeCertificate := ca.issue(t, func(c *x509.Certificate) {
		for range 2500 {
			c.DNSNames = append(c.DNSNames, strings.Repeat("x", 60)+".example.com")
		}
	})
	secret := httpServer(t, nil, status(200))
	closed := closedPort(t)
	for name, test := range map[string]struct {
		url     string
		status  int
		ca      string
		reason  verify.Reason
		message string
	}{
		"status 200 passes":                            {httpServer(t, nil, status(200)), 0, "", "", ""},
		"the expected status passes":                   {httpServer(t, nil, status(401)), 401, "", "", ""},
		"another status":                               {httpServer(t, nil, status(503)), 0, "", verify.ReasonWrongStatus, "status 503, must be 200"},
		"status 200 where another is expected":         {httpServer(t, nil, status(200)), 204, "", verify.ReasonWrongStatus, "status 200, must be 204"},
		"a redirect is not followed":                   {httpServer(t, nil, redirectTo(secret)), 0, "", verify.ReasonWrongStatus, "redirects are not followed, this one is to " + secret},
		"a redirect that is expected passes":           {httpServer(t, nil, redirectTo(secret)), 302, "", "", ""},
		"a body without end is not read":               {httpServer(t, nil, endlessBody), 0, "", "", ""},
		"TLS with the given CA passes":                 {httpServer(t, &good, status(200)), 0, ca.pem, "", ""},
		"TLS with another CA":                          {httpServer(t, &good, status(200)), 0, foreign.pem, verify.ReasonCertificate, "unknown authority"},
		"TLS with the roots of the machine":            {httpServer(t, &good, status(200)), 0, "", verify.ReasonCertificate, "unknown authority"},
		"an expired certificate":                       {httpServer(t, &expired, status(200)), 0, ca.pem, verify.ReasonCertificate, "expired"},
		"a certificate for another name":               {httpServer(t, &otherName, status(200)), 0, ca.pem, verify.ReasonCertificate, "127.0.0.1"},
		"a certificate with a thousand names":          {httpServer(t, &manyNames, status(200)), 0, ca.pem, verify.ReasonCertificate, "127.0.0.1"},
		"a certificate that is too large":              {httpServer(t, &hugeCertificate, status(200)), 0, ca.pem, verify.ReasonTooLarge, ""},
		"a CA that is none":                            {httpServer(t, &good, status(200)), 0, "none", verify.ReasonError, "no certificate in PEM"},
		"TLS where the server speaks none":             {"https" + strings.TrimPrefix(secret, "http"), 0, ca.pem, verify.ReasonTLS, ""},
		"no TLS where the server speaks it":            {"http" + strings.TrimPrefix(httpServer(t, &good, status(200)), "https"), 0, "", verify.ReasonWrongStatus, "status 400"},
		"TLS of an old version":                        {oldTLS(t, good), 0, ca.pem, verify.ReasonTLS, ""},
		"a port that is closed":                        {"http://" + closed, 0, "", verify.ReasonRefused, "GET " + closed + ": connect: connection refused"},
		"a server that is mute":                        {"http://" + tcpServer(t, accept), 0, "", verify.ReasonTimeout, "no answer in time"},
		"a server that is mute within TLS":             {"https://" + tcpServer(t, accept), 0, ca.pem, verify.ReasonTimeout, "no answer in time"},
		"a server that sends a byte now and then":      {"http://" + tcpServer(t, forever("H", 50*time.Millisecond)), 0, "", verify.ReasonTimeout, "no answer in time"},
		"a server that closes the connection":          {"http://" + tcpServer(t, func(c net.Conn) { _ = c.Close() }), 0, "", verify.ReasonReset, ""},
		"a server that closes it within the header":    {"http://" + tcpServer(t, closeAfter("HTTP/1.1 200 OK\r\nA: b\r\n")), 0, "", verify.ReasonReset, ""},
		"a server that closes it within TLS":           {"https://" + tcpServer(t, func(c net.Conn) { _ = c.Close() }), 0, ca.pem, verify.ReasonReset, ""},
		"a server that speaks another protocol":        {"http://" + tcpServer(t, closeAfter("220 mail.example.com ESMTP\r\n")), 0, "", verify.ReasonBadAnswer, "GET 127.0.0.1"},
		"a header without end":                         {"http://" + tcpServer(t, headerForever), 0, "", verify.ReasonTooLarge, "the answer is too large"},
		"a line without end":                           {"http://" + tcpServer(t, forever("HTTP/1.1 200 OK", 0)), 0, "", verify.ReasonTooLarge, "the answer is too large"},
		"interim answers without end":                  {"http://" + tcpServer(t, forever("HTTP/1.1 103 Early Hints\r\n\r\n", 0)), 0, "", verify.ReasonTooLarge, "the answer is too large"},
		"a status that is no number":                   {"http://" + tcpServer(t, closeAfter("HTTP/1.1 two OK\r\n\r\n")), 0, "", verify.ReasonBadAnswer, ""},
		"a location with control characters":           {httpServer(t, nil, redirectTo("/\u202e\u200b")), 0, "", verify.ReasonWrongStatus, "status 302"},
		"a URL whose password must not be in a report": {"http://user:hunter2@" + closedPort(t), 0, "", verify.ReasonRefused, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var status *int // 0 is the default
			if test.status > 0 {
				status = &test.status
			}
			result := ask(t, check.Pod{}, test.reason, verify.Check{HTTP: &verify.HTTP{URL: test.url, Status: status, CA: test.ca}}, verify.Task{})
			assert.Contains(t, result.Message, test.message)
			assert.NotContains(t, result.Message, "hunter2")
			assert.Less(t, len(result.Message), 5000)
		})
	}
}

func redirectTo(location string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusFound)
	}
}

func endlessBody(w http.ResponseWriter, _ *http.Request) {
	for {
		if _, err := w.Write(make([]byte, 4096)); err != nil {
			return
		}
	}
}

func closeAfter(text string) func(net.Conn) {
	return func(connection net.Conn) {
		_, _ = connection.Read(make([]byte, 4096))
		_, _ = connection.Write([]byte(text))
		_ = connection.Close()
	}
}

func headerForever(connection net.Conn) {
	_, _ = connection.Write([]byte("HTTP/1.1 200 OK\r\n"))
	forever("X-Header: value\r\n", 0)(connection)
}

// oldTLS speaks TLS 1.1 alone.
func oldTLS(t *testing.T, certificate tls.Certificate) (url string) {
	t.Helper()
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	return "https://" + tcpServer(t, func(connection net.Conn) { _ = tls.Server(connection, config).Handshake() })
}
