package certs

import (
	"crypto/ecdsa"
	"crypto/x509"
	"slices"
	"time"
)

// pair is a certificate and the private key that belongs to it. Either may be missing: a certificate without its key can still be
// trusted, it can no longer sign or serve.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// state is what the Secret says, as far as it can be believed.
type state struct {
	ca      pair
	next    pair                // the successor of ca, from its creation to its promotion
	leaf    pair                // the serving certificate
	retired []*x509.Certificate // other CAs that certificates in use may still come from

	// published is when all configurations were first seen to hold next; zero before that.
	published time.Time
}

// authorities returns every CA certificate that verifiers shall trust, the current one first, none twice.
func (s state) authorities() []*x509.Certificate {
	var all []*x509.Certificate
	for _, c := range slices.Concat([]*x509.Certificate{s.ca.cert, s.next.cert}, s.retired) {
		if c != nil && !slices.ContainsFunc(all, c.Equal) {
			all = append(all, c)
		}
	}
	return all
}
