package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
)

// Clients says which callers are served: those with a client certificate that is signed by one of the authorities.
type Clients struct {
	// Authorities are the current ones; nil while none could be read, and then no client is served.
	Authorities func() *x509.CertPool
	// Names are the common names that the certificate may have; any, where there are none.
	Names []string
}

// transport returns the TLS configuration, made anew for each connection since the authorities may change.
func transport(certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), clients *Clients) *tls.Config {
	// The API server is a Go client and speaks TLS 1.3; no other client needs this server. It keeps no sessions.
	base := &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: certificate, SessionTicketsDisabled: true}
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		config := base.Clone()
		config.GetConfigForClient = nil
		config.NextProtos = protocols(hello.Conn.RemoteAddr())
		if clients == nil {
			return config, nil
		}
		if config.ClientCAs = clients.Authorities(); config.ClientCAs == nil {
			return nil, errors.New("the authorities of clients could not be read yet")
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.VerifyConnection = clients.verify
		return config, nil
	}
	return base
}

// protocols returns those that a caller may choose from. The API server speaks HTTP/2 to a webhook on loopback only, and HTTP/1.1 to
// all others (k8s.io/apiserver/pkg/util/webhook). One connection of HTTP/2 would hold 250 requests.
func protocols(caller net.Addr) []string {
	if address, ok := caller.(*net.TCPAddr); ok && address.IP.IsLoopback() {
		return []string{"h2", "http/1.1"}
	}
	return []string{"http/1.1"}
}

// verify looks at the name of a caller whose certificate has been verified.
func (c *Clients) verify(state tls.ConnectionState) error {
	if name := state.PeerCertificates[0].Subject.CommonName; len(c.Names) > 0 && !slices.Contains(c.Names, name) {
		return fmt.Errorf("client certificate of %q: it may not call the webhook", name)
	}
	return nil
}
