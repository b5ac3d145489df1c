package webhook_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/webhook"
)

// signer is an authority of client certificates.
type signer struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newSigner(t *testing.T) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	s := signer{key: key, certificate: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
	}}
	der, err := x509.CreateCertificate(rand.Reader, s.certificate, s.certificate, &key.PublicKey, key)
	require.NoError(t, err)
	s.certificate, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return s
}

func (s signer) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(s.certificate)
	return pool
}

func (s signer) client(t *testing.T, name string, usage x509.ExtKeyUsage, deadline time.Time) []tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: deadline,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, s.certificate, &key.PublicKey, s.key)
	require.NoError(t, err)
	return []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
}

func TestOnlyCallersWithACertificateOfTheAuthorityAndANameThatMayCallAreServed(t *testing.T) {
	t.Parallel()
	const apiServer = "kube-apiserver"
	ours, extra := newSigner(t), newSigner(t)
	var authorities atomic.Pointer[x509.CertPool]
	var served atomic.Int32
	certificate, roots := newCertificate(t)
	s := startServerFor(t, 0, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		_, _ = io.WriteString(w, "remembered labels")
	}), roots, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate, nil }, &webhook.Clients{Authorities: authorities.Load, Names: []string{apiServer}})
	expiry := time.Now().Add(time.Hour)
	call := func(shows []tls.Certificate) answer {
		return get(s.client(func(transport *http.Transport) { transport.TLSClientConfig.Certificates = shows }), s.url())
	}
	right := ours.client(t, apiServer, x509.ExtKeyUsageClientAuth, expiry)
	require.Error(t, call(right).err, "nobody is served while the authorities are not known")
	authorities.Store(ours.pool())
	for name, shows := range map[string][]tls.Certificate{
		"no certificate":               nil,
		"one of another authority":     extra.client(t, apiServer, x509.ExtKeyUsageClientAuth, expiry),
		"one of a kubelet":             ours.client(t, "system:node:worker-1", x509.ExtKeyUsageClientAuth, expiry),
		"one that has expired":         ours.client(t, apiServer, x509.ExtKeyUsageClientAuth, time.Now().Add(-time.Second)),
		"one that is for servers only": ours.client(t, apiServer, x509.ExtKeyUsageServerAuth, expiry),
	} {
		a := call(shows)
		require.Error(t, a.err, name)
		assert.Contains(t, a.err.Error(), "tls: ", name)
	}
	assert.Zero(t, served.Load())

	a := call(right)
	require.NoError(t, a.err)
	assert.Equal(t, "remembered labels", a.body)
	authorities.Store(extra.pool())
	require.Error(t, call(right).err, "new authorities count for the next connection")
	assert.NoError(t, call(extra.client(t, apiServer, x509.ExtKeyUsageClientAuth, expiry)).err)
}
