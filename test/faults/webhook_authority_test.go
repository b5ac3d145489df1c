package faults

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// authority issues serving certificates as cert-manager would.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	bundle      []byte
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{certificate: &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}}
	a.bundle, a.key = a.sign(t, a.certificate, nil)
	block, _ := pem.Decode(a.bundle)
	var err error
	a.certificate, err = x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return a
}

// sign signs with the authority's key or, while it has none, with the new one.
func (a *authority) sign(t testing.TB, template *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	if signer == nil {
		signer = key
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, signer)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key
}

// pair is the content of tls.crt and tls.key.
type pair struct{ certificate, key []byte }

// leaf is a serving certificate for an address, good until then.
func (a *authority) leaf(t testing.TB, ip string, until time.Time) pair {
	t.Helper()
	certificate, private := a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "nodekeep-webhook"}, IPAddresses: []net.IP{net.ParseIP(ip)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
	}, a.key)
	der, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	return pair{certificate, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})}
}

// client is a client certificate.
func (a *authority) client(t testing.TB, name string) pair {
	t.Helper()
	certificate, private := a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, a.key)
	der, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	return pair{certificate, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})}
}

// mount is a folder with tls.crt and tls.key that is filled as a kubelet fills a Secret volume: the files are links through
// ..data, which is swapped in one step.
type mount struct{ dir string }

func newMount(t testing.TB) mount {
	t.Helper()
	m := mount{dir: t.TempDir()}
	for _, file := range []string{"tls.crt", "tls.key"} {
		require.NoError(t, os.Symlink(filepath.Join("..data", file), filepath.Join(m.dir, file)))
	}
	return m
}

func (m mount) put(t testing.TB, content pair) {
	t.Helper()
	version := filepath.Join(m.dir, fmt.Sprintf("..%d", time.Now().UnixNano()))
	require.NoError(t, os.Mkdir(version, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(version, "tls.crt"), content.certificate, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(version, "tls.key"), content.key, 0o600))
	before, _ := os.Readlink(filepath.Join(m.dir, "..data"))
	require.NoError(t, os.Symlink(filepath.Base(version), filepath.Join(m.dir, "..data_tmp")))
	require.NoError(t, os.Rename(filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data")))
	if before != "" {
		require.NoError(t, os.RemoveAll(filepath.Join(m.dir, before)))
	}
}
