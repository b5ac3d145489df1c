package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Keys of the Secret. The first three are those of a Secret of cert-manager, so that the same tools read both.
const (
	caCertKey        = "ca.crt" // the bundle
	tlsCertKey       = "tls.crt"
	tlsKeyKey        = "tls.key"
	caKeyKey         = "ca.key"
	nextCertKey      = "next-ca.crt"
	nextKeyKey       = "next-ca.key"
	nextPublishedKey = "next-ca.published" // RFC 3339
)

// decode reads the data of the Secret. A missing value stays empty without an error. An unusable value stays empty, too, and the error
// names keys of the Secret and never their contents.
func decode(data map[string][]byte) (state, error) {
	var s state
	bundle, bundleErr := decodeCerts(data, caCertKey)
	authorities := slices.DeleteFunc(bundle, func(c *x509.Certificate) bool { return !c.IsCA })
	if len(authorities) > 0 {
		s.ca.cert, s.retired = authorities[0], authorities[1:]
	}
	caErr := s.ca.decodeKey(data, caKeyKey, caCertKey)

	next, nextErr := decodePair(data, nextCertKey, nextKeyKey)
	if next.cert != nil && next.cert.IsCA {
		s.next = next
		s.retired = slices.DeleteFunc(s.retired, next.cert.Equal)
	}
	leaf, leafErr := decodePair(data, tlsCertKey, tlsKeyKey)
	s.leaf = leaf

	var stampErr error
	if s.next.cert != nil {
		s.published, stampErr = decodeTime(data, nextPublishedKey)
	}
	return s, errors.Join(bundleErr, caErr, nextErr, leafErr, stampErr)
}

// encode returns the inverse of decode. The keys that Secrets of type kubernetes.io/tls must have are always there.
func encode(s state) (map[string][]byte, error) {
	data := map[string][]byte{tlsCertKey: {}, tlsKeyKey: {}}
	if all := s.authorities(); len(all) > 0 {
		bundle, err := cert.EncodeCertificates(all...)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", caCertKey, err)
		}
		data[caCertKey] = bundle
	}
	if err := errors.Join(
		s.ca.encode(data, "", caKeyKey),
		s.leaf.encode(data, tlsCertKey, tlsKeyKey),
		s.next.encode(data, nextCertKey, nextKeyKey),
	); err != nil {
		return nil, err
	}
	if s.next.cert != nil && !s.published.IsZero() {
		data[nextPublishedKey] = []byte(s.published.UTC().Format(time.RFC3339))
	}
	return data, nil
}

// merge returns have with the keys of this package replaced by those of ours, other keys as they were.
func merge(current, ours map[string][]byte) map[string][]byte {
	merged := map[string][]byte{}
	maps.Copy(merged, current)
	for _, k := range []string{caCertKey, tlsCertKey, tlsKeyKey, caKeyKey, nextCertKey, nextKeyKey, nextPublishedKey} {
		delete(merged, k)
		if v, ok := ours[k]; ok {
			merged[k] = v
		}
	}
	return merged
}

// decodePair reads a certificate and its key, each as far as it can be read.
func decodePair(data map[string][]byte, certKey, keyKey string) (pair, error) {
	certs, err := decodeCerts(data, certKey)
	if err != nil || len(certs) == 0 {
		return pair{}, err
	}
	p := pair{cert: certs[0]}
	return p, p.decodeKey(data, keyKey, certKey)
}

func decodeCerts(data map[string][]byte, key string) ([]*x509.Certificate, error) {
	if len(bytes.TrimSpace(data[key])) == 0 {
		return nil, nil
	}
	certs, err := cert.ParseCertsPEM(data[key])
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", key, err)
	}
	return certs, nil
}

// decodeTime reads a time to the second, in UTC. Years that RFC 3339 cannot write are refused.
func decodeTime(data map[string][]byte, key string) (time.Time, error) {
	if len(bytes.TrimSpace(data[key])) == 0 {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, string(data[key]))
	t = t.UTC().Truncate(time.Second)
	if err != nil || t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}, fmt.Errorf("parse %s: not a time", key)
	}
	return t, nil
}

// decodeKey sets p.key when the data hold the key that belongs to p.cert.
func (p *pair) decodeKey(data map[string][]byte, keyKey, certKey string) error {
	if p.cert == nil || len(bytes.TrimSpace(data[keyKey])) == 0 {
		return nil
	}
	// The parser's own error is not passed on: it is about the bytes of a private key.
	parsed, err := keyutil.ParsePrivateKeyPEM(data[keyKey])
	key, ours := parsed.(*ecdsa.PrivateKey)
	switch {
	case err != nil, !ours, key.Curve != elliptic.P256():
		return fmt.Errorf("parse %s: not an ECDSA P-256 private key", keyKey)
	case !key.PublicKey.Equal(p.cert.PublicKey):
		return fmt.Errorf("parse %s: it does not belong to %s", keyKey, certKey)
	}
	p.key = key
	return nil
}

// encode adds p to data, the certificate only when certKey is not empty.
func (p pair) encode(data map[string][]byte, certKey, keyKey string) error {
	if p.cert != nil && certKey != "" {
		encoded, err := cert.EncodeCertificates(p.cert)
		if err != nil {
			return fmt.Errorf("encode %s: %w", certKey, err)
		}
		data[certKey] = encoded
	}
	if p.key != nil {
		encoded, err := keyutil.MarshalPrivateKeyToPEM(p.key)
		if err != nil {
			return fmt.Errorf("encode %s: %w", keyKey, err)
		}
		data[keyKey] = encoded
	}
	return nil
}
