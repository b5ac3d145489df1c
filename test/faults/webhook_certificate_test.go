package faults

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	loopback = "127.0.0.1"
	// unspecified is dialled as loopback too, but the API server does not take it for that: it then speaks HTTP/1.1, as it
	// does to a Service, over connections of which there can be many.
	unspecified = "0.0.0.0"
)

// viaHTTP1 is a loopback address written so that the API server speaks HTTP/1.1 there.
func viaHTTP1(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return net.JoinHostPort(unspecified, port)
}

func TestABadCertificateInTheCertDirStopsNoRegistrationAndANewOneIsServedWithoutARestart(t *testing.T) {
	ours, another := newAuthority(t, "ours"), newAuthority(t, "another")
	for n, c := range []struct {
		name          string
		by            *authority
		ip            string
		until         time.Time
		says, dialled string
	}{
		{"it has expired", ours, loopback, time.Now().Add(-time.Minute), "[-] certificate: the serving certificate", "expired"},
		{"it is for another name", ours, "10.0.0.1", time.Now().Add(time.Hour), "[+] certificate", "not 127.0.0.1"},
		{"it is signed by another authority", another, loopback, time.Now().Add(time.Hour), "[+] certificate", "unknown authority"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes := rememberNodes(t, fmt.Sprintf("badcert-%d", n), 3, protected)
			require.NoError(t, nodekeep.StopWebhook()) // one that manages a caBundle of its own
			files := newMount(t)
			files.put(t, c.by.leaf(t, c.ip, c.until))
			r := startReplica(t, "webhook-by-files", "--cert-dir", files.dir, "--drain", "0s")
			back := pointAt(t, r.address, ours.bundle)
			defer func() {
				back()
				require.NoError(t, nodekeep.StartWebhook(t.Context()))
			}()
			r.untilSays(t, "[+] records")
			r.untilSays(t, c.says)
			_, err := handshake(r.address, ours.bundle)
			require.ErrorContains(t, err, c.dialled)
			untilCalled(t, false)

			m := nodes.comeBack(t)

			began := time.Now()
			files.put(t, ours.leaf(t, loopback, time.Now().Add(time.Hour)))
			untilCalled(t, true)
			t.Logf("%s; whole again %s after the new certificate", m, round(time.Since(began)))
			assert.Zero(t, m.restored)
			assert.Less(t, m.registered, delayed)
			assert.True(t, r.ready())
		})
	}
}

func TestAWrongCABundleStopsNoRegistrationAndStaysUntilItIsMendedWhereCertificatesComeFromFiles(t *testing.T) {
	ours, another := newAuthority(t, "ours"), newAuthority(t, "another")
	require.NoError(t, nodekeep.StopWebhook())
	files := newMount(t)
	files.put(t, ours.leaf(t, loopback, time.Now().Add(time.Hour)))
	r := startReplica(t, "webhook-by-files", "--cert-dir", files.dir, "--drain", "0s")
	back := pointAt(t, r.address, ours.bundle)
	defer func() {
		back()
		require.NoError(t, nodekeep.StartWebhook(t.Context()))
	}()
	untilCalled(t, true)
	for name, bundle := range map[string][]byte{"wrong": another.bundle, "empty": {}} {
		t.Run(name, func(t *testing.T) {
			nodes := rememberNodes(t, "bundle-"+name, 3, protected)
			pointAt(t, r.address, bundle)
			untilCalled(t, false)

			m := nodes.comeBack(t)

			creation, _ := clientConfigs(t)
			assert.Equal(t, bundle, append([]byte{}, creation.CABundle...), "nobody else writes it")
			pointAt(t, r.address, ours.bundle)
			t.Logf("%s; whole again %s after the right bundle", m, untilCalled(t, true))
			assert.Zero(t, m.restored)
			assert.Less(t, m.registered, delayed)
		})
	}
}

// The webhook looks once a minute.
func TestAWrongCABundleIsPutRightByTheWebhookItselfWhereItManagesItsCertificates(t *testing.T) {
	nodes := rememberNodes(t, "healed", 3, protected)
	right, deletion := clientConfigs(t)
	began := time.Now()
	setClientConfigs(t, at(t, right, webhookAddress(t), newAuthority(t, "another").bundle), at(t, deletion, webhookAddress(t), []byte{}))
	untilCalled(t, false)

	m := nodes.comeBack(t)

	require.Eventually(t, func() bool {
		mutating, validating := clientConfigs(t)
		return bytes.Equal(mutating.CABundle, right.CABundle) && bytes.Equal(validating.CABundle, deletion.CABundle)
	}, 90*time.Second, 50*time.Millisecond)
	untilCalled(t, true)
	t.Logf("%s; whole again by itself after %s", m, round(time.Since(began)))
	assert.Zero(t, m.restored)
	again := nodes.comeBack(t)
	assert.Less(t, again.registered, delayed)
}

func TestACertificateThatIsReplacedUnderLoadCostsNoRestore(t *testing.T) {
	const rotations = 5
	authorities := []*authority{newAuthority(t, "one"), newAuthority(t, "two")}
	bundles := [][]byte{slices.Concat(authorities[0].bundle, authorities[1].bundle), slices.Concat(authorities[1].bundle, authorities[0].bundle)}
	require.NoError(t, nodekeep.StopWebhook())
	files := newMount(t)
	files.put(t, authorities[0].leaf(t, unspecified, time.Now().Add(time.Hour)))
	r := startReplica(t, "webhook-by-files", "--cert-dir", files.dir, "--drain", "0s")
	back := pointAt(t, viaHTTP1(r.address), bundles[0])
	defer func() {
		back()
		require.NoError(t, nodekeep.StartWebhook(t.Context()))
	}()
	untilCalled(t, true)
	stop := startLoad(t, "rotated", 6, ordinary)
	before := webhookCalls(t)
	var served []time.Duration
	for n := range rotations {
		leaf := authorities[(n+1)%2].leaf(t, unspecified, time.Now().Add(time.Hour))
		began := time.Now()
		files.put(t, leaf)
		want, err := tls.X509KeyPair(leaf.certificate, leaf.key)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			shown, err := handshake(viaHTTP1(r.address), bundles[0])
			assert.NoError(t, err, "every handshake must succeed")
			return err == nil && bytes.Equal(shown.Raw, want.Certificate[0])
		}, settles, 20*time.Millisecond)
		served = append(served, round(time.Since(began)))
		// With another order of the bundle the API server makes new connections.
		pointAt(t, viaHTTP1(r.address), bundles[(n+1)%2])
		time.Sleep(300 * time.Millisecond)
	}
	made := webhookCalls(t).since(before)
	l := stop()
	t.Logf("%s; %s; each certificate was served after %v", l, made, served)
	l.whole(t)
	made.served(t, l)
}

// handshake connects as the API server would and returns the certificate that it was shown.
func handshake(address string, bundle []byte) (*x509.Certificate, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	connection, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", address, &tls.Config{RootCAs: roots})
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0], nil
}
