package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/cert"
	testingclock "k8s.io/utils/clock/testing"
)

func TestHandshake(t *testing.T) {
	c := installed(t)
	s := c.replica(testingclock.NewFakeClock(time.Now()), nil)
	require.NoError(t, s.sync(t.Context()))
	address := serve(t, s.GetCertificate)
	for name, server := range map[string]string{
		"the name an API server uses":     "nodekeep-webhook.nodekeep-system.svc",
		"the full name of the Service":    "nodekeep-webhook.nodekeep-system.svc.cluster.local",
		"the short name of the Service":   "nodekeep-webhook.nodekeep-system",
		"an extra IP address":             "127.0.0.1",
		"an extra DNS name":               "localhost",
		"a name in another case verifies": "LOCALHOST",
	} {
		t.Run(name, func(t *testing.T) {
			for _, bundle := range c.bundles() {
				leaf, err := dial(t, address, server, bundle)
				require.NoError(t, err)
				assert.Equal(t, s.NotAfter(), leaf)
			}
		})
	}
	_, err := dial(t, address, "example.com", c.bundles()[0])
	require.ErrorContains(t, err, "example.com", "no other name verifies")
}

func TestLeafNeverOutlivesItsAuthority(t *testing.T) {
	ca := authority(t, 10*day, birth)
	leaf := leafOf(t, ca, birth, "localhost")
	assert.Equal(t, ca.cert.NotAfter, leaf.cert.NotAfter)
}

func TestValidityForgivesClocksThatAreBehind(t *testing.T) {
	s := born(t)
	assert.Equal(t, birth.Add(-time.Hour), s.ca.cert.NotBefore)
	assert.Equal(t, birth.Add(-time.Hour), s.leaf.cert.NotBefore)
	assert.Equal(t, birth.Add(90*day), s.leaf.cert.NotAfter, "life counts from the making")
}

func TestKeysAreP256AndNeverShared(t *testing.T) {
	s := born(t)
	assert.Equal(t, elliptic.P256(), s.ca.cert.PublicKey.(*ecdsa.PublicKey).Curve)
	assert.Equal(t, elliptic.P256(), s.leaf.cert.PublicKey.(*ecdsa.PublicKey).Curve)
	assert.False(t, s.ca.key.Equal(s.leaf.key))
	assert.False(t, s.leaf.cert.IsCA)
}

// serve accepts TLS connections on a loopback port until the test ends and returns its address.
func serve(t *testing.T, get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: get})
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake()
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

// dial does one handshake as a client that trusts bundle and expects server, and returns when the leaf it met expires.
func dial(t *testing.T, address, server string, bundle []byte) (time.Time, error) {
	t.Helper()
	roots, err := cert.NewPoolFromBytes(bundle)
	require.NoError(t, err)
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: shortly}, "tcp", address, &tls.Config{RootCAs: roots, ServerName: server})
	if err != nil {
		return time.Time{}, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].NotAfter, nil
}
