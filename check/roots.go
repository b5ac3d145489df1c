package check

import (
	"crypto/x509"
	"fmt"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"nodekeep.dev/nodekeep/verify"
)

// authorities returns the roots that a server's certificate is verified with. They are those of a PEM text, or without a text those of the machine.
func (r *run) authorities(pem string) (*x509.CertPool, error) {
	if pem == "" {
		return r.roots()
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(pem)) {
		return nil, failf(verify.ReasonError, "the CA has no certificate in PEM")
	}
	return roots, nil
}

// machineRoots returns the roots of the machine, or those of the binary where it has none, like the image. Package fallback would add them to
// every process of nodekeep.
func machineRoots() (*x509.CertPool, error) { return orEmbedded(x509.SystemCertPool()) }

// orEmbedded returns the roots of the machine, if it has any.
func orEmbedded(machine *x509.CertPool, err error) (*x509.CertPool, error) {
	if err == nil && !machine.Equal(x509.NewCertPool()) {
		return machine, nil
	}
	return embedded()
}

func embedded() (*x509.CertPool, error) {
	roots := x509.NewCertPool()
	for root := range bundle.Roots() {
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			return nil, fmt.Errorf("parse embedded root: %w", err)
		}
		if root.Constraint == nil {
			roots.AddCert(certificate)
		} else {
			roots.AddCertWithConstraint(certificate, root.Constraint)
		}
	}
	return roots, nil
}
