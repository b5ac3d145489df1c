package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"time"
)

// newAuthority makes a self-signed CA that is good for life from now on. Its name holds the time, so that operators can distinguish two CAs
// of one bundle apart.
func newAuthority(life time.Duration, now time.Time) (pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: fmt.Sprintf("nodekeep-webhook-ca@%d", now.Unix())},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(life),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	p, err := sign(template, nil)
	if err != nil {
		return pair{}, fmt.Errorf("issue CA: %w", err)
	}
	return p, nil
}

// newLeaf makes a serving certificate for names (DNS names and IP addresses), signed by ca. It is valid for life from now on, but not
// longer than ca. A verifier would refuse it after that anyway, and its expiry should be the real one.
func newLeaf(ca pair, names []string, life time.Duration, now time.Time) (pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "nodekeep-webhook"},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(life),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if template.NotAfter.After(ca.cert.NotAfter) {
		template.NotAfter = ca.cert.NotAfter
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	p, err := sign(template, &ca)
	if err != nil {
		return pair{}, fmt.Errorf("issue serving certificate: %w", err)
	}
	return p, nil
}

// sign makes a key and a certificate for it by template, signed by ca or, without one, by itself.
func sign(template *x509.Certificate, ca *pair) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("generate key: %w", err)
	}
	parent, signer := template, key
	if ca != nil {
		parent, signer = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return pair{}, fmt.Errorf("sign certificate: %w", err)
	}
	// Read back what was written: a certificate that cannot be parsed must never reach the Secret.
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return pair{}, fmt.Errorf("parse signed certificate: %w", err)
	}
	return pair{cert: parsed, key: key}, nil
}
