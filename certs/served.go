package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync/atomic"
	"time"
)

// served is the certificate that is served, whichever source it has. Its methods never wait.
type served struct {
	serving atomic.Pointer[tls.Certificate] // nil before there is one
}

// GetCertificate returns the certificate to serve, for [tls.Config]. It fails only before there is a first one.
func (s *served) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := s.serving.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("there is no serving certificate yet")
}

// NotAfter returns when the certificate that is served expires, or the zero time when there is none.
func (s *served) NotAfter() time.Time { return s.leaf().NotAfter }

// NotBefore returns from when on the certificate that is served is valid, or the zero time when there is none. One that nodekeep issued is
// valid from an hour before it was made.
func (s *served) NotBefore() time.Time { return s.leaf().NotBefore }

func (s *served) leaf() *x509.Certificate {
	if c := s.serving.Load(); c != nil {
		return c.Leaf
	}
	return &x509.Certificate{}
}
