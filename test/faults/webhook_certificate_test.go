package faults

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

const (
	loopback = "127.0.0.1"
	// unspecified is dialled as loopback too, but the API server does not take it for that: it then speaks HTTP/1.1, as it
	// does to a Service, over connections of which there can be many.
	unspecified = "0.0.0.0"
)

// viaHTTP1 returns a loopback address written so that the API server speaks HTTP/1.1 there.
func viaHTTP1(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return net.JoinHostPort(unspecified, port)
}

// authority issues serving certificates as cert-manager would.
type authority struct{ *harness.Authority }

func newAuthority(t testing.TB) authority {
	t.Helper()
	a, err := harness.NewAuthority()
	require.NoError(t, err)
	return authority{a}
}

// pair is a certificate and its key.
type pair struct{ certificate, key []byte }

// leaf returns a serving certificate for an address that ends so long from now.
func (a authority) leaf(t testing.TB, ip string, life time.Duration) (p pair) {
	t.Helper()
	var err error
	p.certificate, p.key, err = a.Server([]string{"nodekeep-webhook"}, []net.IP{net.ParseIP(ip)}, time.Now().Add(life))
	require.NoError(t, err)
	return p
}

// client returns a client certificate.
func (a authority) client(t testing.TB, name string) (p pair) {
	t.Helper()
	var err error
	p.certificate, p.key, err = a.Client(name)
	require.NoError(t, err)
	return p
}

// mount is a folder with tls.crt and tls.key that is filled as a kubelet fills a Secret volume: the files are links through
// ..data, which is swapped in one step.
type mount string

func newMount(t testing.TB) mount {
	t.Helper()
	dir := t.TempDir()
	for _, file := range []string{"tls.crt", "tls.key"} {
		require.NoError(t, os.Symlink(filepath.Join("..data", file), filepath.Join(dir, file)))
	}
	return mount(dir)
}

func (m mount) put(t testing.TB, content pair) {
	t.Helper()
	in := func(names ...string) string { return filepath.Join(append([]string{string(m)}, names...)...) }
	version := fmt.Sprintf("..%d", time.Now().UnixNano())
	require.NoError(t, os.Mkdir(in(version), 0o700))
	require.NoError(t, os.WriteFile(in(version, "tls.crt"), content.certificate, 0o600))
	require.NoError(t, os.WriteFile(in(version, "tls.key"), content.key, 0o600))
	head, _ := os.Readlink(in("..data"))
	require.NoError(t, os.Symlink(version, in("..data_tmp")))
	require.NoError(t, os.Rename(in("..data_tmp"), in("..data")))
	if head != "" {
		require.NoError(t, os.RemoveAll(in(head)))
	}
}

// byFiles starts a webhook that serves the certificate of the mount, in place of the installed one, until the end of the test: the API
// server calls it and believes this authority.
func byFiles(t testing.TB, files mount, host string, believes []byte, args ...string) *harness.Replica {
	t.Helper()
	require.NoError(t, nodekeep.StopWebhook()) // it manages a caBundle of its own
	t.Cleanup(func() { require.NoError(t, nodekeep.StartWebhook(context.Background())) })
	r := nodekeep.StartReplica(t, "webhook", append([]string{"--cert-dir", string(files), "--drain", "0s"}, args...)...)
	address := r.Address
	if host == unspecified {
		address = viaHTTP1(address)
	}
	t.Cleanup(pointAt(t, address, believes))
	return r
}

func TestABadCertificateInTheCertDirStopsNoRegistrationAndANewOneIsServedWithoutARestart(t *testing.T) {
	ours, extra := newAuthority(t), newAuthority(t)
	for n, c := range []struct {
		name          string
		by            authority
		ip            string
		life          time.Duration
		says, dialled string
	}{
		{"it has expired", ours, loopback, -time.Minute, "[-] certificate: the serving certificate", "expired"},
		{"it is for another name", ours, "10.0.0.1", time.Hour, "[+] certificate", "not 127.0.0.1"},
		{"it is signed by another authority", extra, loopback, time.Hour, "[+] certificate", "unknown authority"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes := recordedNodes(t, fmt.Sprintf("badcert-%d", n), 3, protected)
			files := newMount(t)
			files.put(t, c.by.leaf(t, c.ip, c.life))
			r := byFiles(t, files, loopback, ours.PEM)
			r.UntilSays(t, "[+] records")
			r.UntilSays(t, c.says)
			_, err := handshake(r.Address, ours.PEM)
			require.ErrorContains(t, err, c.dialled)
			untilCalled(t, false)

			m := nodes.comeBack(t)

			began := time.Now()
			files.put(t, ours.leaf(t, loopback, time.Hour))
			untilCalled(t, true)
			t.Logf("%s; whole again %s after the new certificate", m, round(time.Since(began)))
			assert.Zero(t, m.restored)
			assert.Less(t, m.soonest, delayed)
			assert.True(t, r.Ready())
		})
	}
}

func TestAWrongCABundleStopsNoRegistrationAndStaysUntilItIsMendedWhereCertificatesComeFromFiles(t *testing.T) {
	ours, extra := newAuthority(t), newAuthority(t)
	files := newMount(t)
	files.put(t, ours.leaf(t, loopback, time.Hour))
	r := byFiles(t, files, loopback, ours.PEM)
	untilCalled(t, true)
	for name, bundle := range map[string][]byte{"wrong": extra.PEM, "empty": {}} {
		t.Run(name, func(t *testing.T) {
			nodes := recordedNodes(t, "bundle-"+name, 3, protected)
			pointAt(t, r.Address, bundle)
			untilCalled(t, false)

			m := nodes.comeBack(t)

			assert.Equal(t, bundle, append([]byte{}, webhookBundle(t)...), "nobody else writes it")
			pointAt(t, r.Address, ours.PEM)
			t.Logf("%s; whole again %s after the right bundle", m, untilCalled(t, true))
			assert.Zero(t, m.restored)
			assert.Less(t, m.soonest, delayed)
		})
	}
}

// The webhook looks once a minute.
func TestTheWebhookItselfCorrectsAWrongCABundleWhereItManagesItsCertificates(t *testing.T) {
	t.Parallel()
	nodes := recordedNodes(t, "healed", 3, protected)
	right, deletion := clientConfigs(t)
	began := time.Now()
	setClientConfigs(t, endpointAt(t, right, webhookAddress(t), newAuthority(t).PEM), endpointAt(t, deletion, webhookAddress(t), []byte{}))
	corrected := func() bool {
		mutating, validating := clientConfigs(t)
		return bytes.Equal(mutating.CABundle, right.CABundle) && bytes.Equal(validating.CABundle, deletion.CABundle)
	}
	harness.Eventually(t, func() bool { return !called(t) || corrected() }, harness.Settles, 10*time.Millisecond)

	m := nodes.comeBack(t)

	atOnce := corrected() // it may have looked just now
	harness.Eventually(t, corrected, 4*harness.Settles, 50*time.Millisecond)
	untilCalled(t, true)
	t.Logf("%s; whole again by itself after %s", m, round(time.Since(began)))
	assert.True(t, m.restored == 0 || atOnce, "%s", m)
	assert.Less(t, nodes.comeBack(t).soonest, delayed)
}

func TestACertificateThatIsReplacedUnderLoadCostsNoRestore(t *testing.T) {
	const rotations = 5
	authorities := []authority{newAuthority(t), newAuthority(t)}
	bundles := [][]byte{slices.Concat(authorities[0].PEM, authorities[1].PEM), slices.Concat(authorities[1].PEM, authorities[0].PEM)}
	files := newMount(t)
	files.put(t, authorities[0].leaf(t, unspecified, time.Hour))
	r := byFiles(t, files, unspecified, bundles[0])
	untilCalled(t, true)
	stop := startLoad(t, "rotated", 6, ordinary)
	prev := webhookCalls(t)
	var served []time.Duration
	for n := range rotations {
		leaf := authorities[(n+1)%2].leaf(t, unspecified, time.Hour)
		began := time.Now()
		files.put(t, leaf)
		want, err := tls.X509KeyPair(leaf.certificate, leaf.key)
		require.NoError(t, err)
		harness.Eventually(t, func() bool {
			shown, err := handshake(viaHTTP1(r.Address), bundles[0])
			require.NoError(t, err, "every handshake must succeed")
			return bytes.Equal(shown.Raw, want.Certificate[0])
		}, harness.Settles, 20*time.Millisecond)
		served = append(served, round(time.Since(began)))
		// With another order of the bundle the API server makes new connections.
		pointAt(t, viaHTTP1(r.Address), bundles[(n+1)%2])
		time.Sleep(300 * time.Millisecond)
	}
	made := webhookCalls(t).minus(prev)
	l := stop()
	t.Logf("each certificate was served after %v", served)
	l.whole(t)
	made.served(t, l)
}

// authorities returns those of a bundle.
func authorities(bundle []byte) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	return roots
}

// handshake connects as the API server would and returns the certificate that it was shown.
func handshake(address string, bundle []byte) (*x509.Certificate, error) {
	connection, err := tls.DialWithDialer(&net.Dialer{Timeout: harness.Settles}, "tcp", address, &tls.Config{RootCAs: authorities(bundle)})
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0], nil
}

func TestTheWebhookSpeaksTLS13OnlyAndTheAPIServerCallsIt(t *testing.T) {
	const name = "tls-13"
	speak := func(version uint16) (*tls.Conn, error) {
		return tls.Dial("tcp", webhookAddress(t), &tls.Config{RootCAs: authorities(webhookBundle(t)), MinVersion: version, MaxVersion: version})
	}
	_, err := speak(tls.VersionTLS12)
	require.ErrorContains(t, err, "protocol version")
	connection, err := speak(tls.VersionTLS13)
	require.NoError(t, err)
	_ = connection.Close()

	nodekeep.RegisterRecorded(t, name, ordinary)
	var returned *corev1.Node
	var made calls
	for range attempts {
		prev, began := webhookCalls(t), time.Now()
		nodekeep.DeleteNode(t, name)
		returned = nodekeep.Register(t, name)
		took := time.Since(began)
		made = webhookCalls(t).minus(prev)
		if took < webhookTimeout { // else the API server may have given up on a call
			break
		}
	}
	assert.True(t, harness.HasAll(returned.Labels, ordinary), "restored in the CREATE")
	assert.False(t, harness.Gated(returned))
	made.served(t, &load{})
}
