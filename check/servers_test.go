package check_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/check"
	"nodekeep.dev/nodekeep/verify"
)

// dnsServer answers over UDP and TCP at one address, as answer says; nil is no answer.
func dnsServer(t *testing.T, answer func(question *dns.Msg, overTCP bool) *dns.Msg) (address string) {
	t.Helper()
	packets, stream := samePort(t)
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, question *dns.Msg) {
		_, overTCP := w.RemoteAddr().(*net.TCPAddr)
		if reply := answer(question, overTCP); reply != nil {
			_ = w.WriteMsg(reply) // the client may have left
		}
	})
	for _, server := range []*dns.Server{{PacketConn: packets, Handler: handler}, {Listener: stream, Handler: handler}} {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		go func() { _ = server.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = server.Shutdown() })
	}
	return packets.LocalAddr().String()
}

// samePort returns a free port of both protocols.
func samePort(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 100 {
		packets, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		if stream, err := net.Listen("tcp", packets.LocalAddr().String()); err == nil {
			return packets, stream
		}
		require.NoError(t, packets.Close())
	}
	t.Fatal("no port is free for UDP and TCP")
	return nil, nil
}

// withAddresses answers names that start so with these addresses, all others with NXDOMAIN.
func withAddresses(zone map[string][]string) func(*dns.Msg, bool) *dns.Msg {
	return func(question *dns.Msg, _ bool) *dns.Msg {
		name := question.Question[0].Name
		for prefix, addresses := range zone {
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			reply := new(dns.Msg).SetReply(question)
			reply.RecursionAvailable = true
			for _, address := range addresses {
				ip := net.ParseIP(address)
				header := dns.RR_Header{Name: name, Class: dns.ClassINET, Ttl: 1}
				switch {
				case ip.To4() != nil && question.Question[0].Qtype == dns.TypeA:
					header.Rrtype = dns.TypeA
					reply.Answer = append(reply.Answer, &dns.A{Hdr: header, A: ip})
				case ip.To4() == nil && question.Question[0].Qtype == dns.TypeAAAA:
					header.Rrtype = dns.TypeAAAA
					reply.Answer = append(reply.Answer, &dns.AAAA{Hdr: header, AAAA: ip})
				}
			}
			return reply
		}
		return new(dns.Msg).SetRcode(question, dns.RcodeNameError)
	}
}

func withCode(code int) func(*dns.Msg, bool) *dns.Msg {
	return func(question *dns.Msg, _ bool) *dns.Msg { return new(dns.Msg).SetRcode(question, code) }
}

func mute(*dns.Msg, bool) *dns.Msg { return nil }

// podWithDNS returns a Pod whose own resolver is at an address, whatever resolv.conf of this machine says.
func podWithDNS(resolver string) check.Pod {
	return check.Pod{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if _, port, _ := net.SplitHostPort(address); port == "53" {
			address = resolver
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}

// tcpServer hands each connection to serve, which need not close it.
func tcpServer(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = connection.Close() })
			go serve(connection)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return listener.Addr().String()
}

// closedPort returns an address where nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// forever writes text until the client leaves.
func forever(text string, pause time.Duration) func(net.Conn) {
	return func(connection net.Conn) {
		for {
			if _, err := connection.Write([]byte(text)); err != nil {
				return
			}
			time.Sleep(pause)
		}
	}
}

// authority signs certificates for servers on loopback.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         string
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{certificate, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}
}

// issue returns a certificate for 127.0.0.1; change may spoil it.
func (a authority) issue(t *testing.T, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// ask runs one check, and asserts that its result has this reason; none is for a check that passes.
func ask(t *testing.T, pod check.Pod, expected verify.Reason, question verify.Check, task verify.Task) verify.Result {
	t.Helper()
	result := answer(t, pod, expected, question, task)
	assert.Equal(t, expected, result.Reason, result.Message)
	return result
}

// answer runs one check, for as long as a result of this reason takes. It asserts that the controller can read each result.
func answer(t *testing.T, pod check.Pod, expected verify.Reason, question verify.Check, task verify.Task) verify.Result {
	t.Helper()
	const longest = time.Minute
	timeout := 200 * time.Millisecond
	if expected == "" {
		timeout = longest
	}
	question.Name = "question"
	task.Checks = []verify.Check{question}
	for ; ; timeout *= 4 {
		task.Timeout = timeout.String()
		report := pod.Run(t.Context(), task)
		require.Len(t, report.Results, 1)
		text := report.Encode(verify.ReportLimit(task.Checks))
		parsed, err := verify.ParseReport(text, task.Checks)
		require.NoError(t, err, text)
		require.Equal(t, report.Results[0].Outcome, parsed.Results[0].Outcome)
		slow := report.Results[0].Reason == verify.ReasonTimeout && expected != verify.ReasonTimeout
		if !slow || timeout >= longest {
			return report.Results[0]
		}
	}
}
