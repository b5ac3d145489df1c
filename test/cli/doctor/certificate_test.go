package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/cert"
)

// newCertificate makes an authority and a certificate for loopback that it has signed, which is valid for that long from now.
func newCertificate(t *testing.T, life time.Duration) (authority, serving []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	const longAgo = -90 * 24 * time.Hour
	now := time.Now()
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "another", NotBefore: now.Add(longAgo)}, key)
	require.NoError(t, err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: now.Add(longAgo), NotAfter: now.Add(life),
	}
	issued, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issued})
}
