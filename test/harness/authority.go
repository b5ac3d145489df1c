package harness

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// certificateLife is longer than anyone leaves a cluster up.
const certificateLife = 365 * 24 * time.Hour

// Authority signs all certificates of a cluster: the API server's, those of its clients, and those that tests need.
type Authority struct {
	// PEM is its own certificate.
	PEM []byte

	cert   *x509.Certificate
	key    crypto.Signer
	keyPEM []byte
}

// NewAuthority makes one with a key of its own.
func NewAuthority() (*Authority, error) {
	keyPEM, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, fmt.Errorf("generate CA key: %w", err)
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "nodekeep-test-ca", NotBefore: time.Now().Add(-time.Hour)}, key)
	if err != nil {
		return nil, fmt.Errorf("make CA certificate: %w", err)
	}
	return &Authority{PEM: encodeCertificate(cert.Raw), cert: cert, key: key, keyPEM: keyPEM}, nil
}

// loadAuthority reads the authority of a detached cluster.
func loadAuthority(dir string) (*Authority, error) {
	certs, err := certutil.CertsFromFile(filepath.Join(dir, caCertFile))
	if err != nil {
		return nil, fmt.Errorf("read CA certificate: %w", err)
	}
	keyPEM, err := os.ReadFile(filepath.Join(dir, caKeyFile))
	if err != nil {
		return nil, fmt.Errorf("read CA key: %w", err)
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	return &Authority{PEM: encodeCertificate(certs[0].Raw), cert: certs[0], key: key, keyPEM: keyPEM}, nil
}

// Client issues a certificate that the API server takes for this user in these groups.
func (a *Authority) Client(user string, groups ...string) (certPEM, keyPEM []byte, err error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// Server issues a serving certificate for these names and addresses, good until then or, by default, for a year.
func (a *Authority) Server(names []string, addresses []net.IP, expiry time.Time) (certPEM, keyPEM []byte, err error) {
	return a.issue(&x509.Certificate{
		NotAfter:    expiry,
		Subject:     pkix.Name{CommonName: names[0]},
		DNSNames:    names,
		IPAddresses: addresses,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

func (a *Authority) issue(template *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	if keyPEM, err = keyutil.MakeEllipticPrivateKeyPEM(); err != nil {
		return nil, nil, fmt.Errorf("generate key: %w", err)
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, fmt.Errorf("generate serial number: %w", err)
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(certificateLife)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate of %q: %w", template.Subject.CommonName, err)
	}
	return encodeCertificate(der), keyPEM, nil
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der})
}

func parseKey(keyPEM []byte) (crypto.Signer, error) {
	key, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("parse key: %w", err)
	}
	return key.(crypto.Signer), nil
}
