package check

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"nodekeep.dev/nodekeep/verify"
)

// Response codes of DNS (RFC 1035, 4.1.1).
const (
	codeSuccess       = 0
	codeServerFailure = 2
	codeNoSuchName    = 3
	codeRefused       = 5
)

// dnsHeader is how many bytes of a DNS message have its identifier, its flags and its response code.
const dnsHeader = 4

// exchanges are what the resolver asked DNS servers while it resolved a name. The resolver's own error is not precise enough. After SERVFAIL it tries
// the next search domain, and at the end reports that the name does not exist.
type exchanges struct {
	mutex sync.Mutex
	all   []*exchange
}

// exchange is one question and its answer, over a connection of its own.
type exchange struct {
	server  string
	reason  verify.Reason // of what went wrong; empty for an answer that the resolver may use
	text    string        // the same in words
	pending bool          // nothing came of it so far
	close   func() error
}

// maxExchanges bounds what is kept of one name: some six search domains, two types, two attempts and three servers.
const maxExchanges = 128

// begin notes a question. Until it is answered its server counts as mute.
func (e *exchanges) begin(server string, closes func() error) *exchange {
	x := &exchange{server: server, reason: verify.ReasonTimeout, text: "sent no answer in time", pending: true, close: closes}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if len(e.all) < maxExchanges {
		e.all = append(e.all, x)
	}
	return x
}

// end notes what came of it.
func (e *exchanges) end(x *exchange, reason verify.Reason, text string) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	x.reason, x.text, x.pending = reason, text, false
}

// broke notes that no more can be read of an answer. One that was read and was wrong stays.
func (e *exchanges) broke(x *exchange, reason verify.Reason, text string) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if x.reason == "" || x.reason == verify.ReasonTimeout || reason == verify.ReasonTooLarge {
		x.reason, x.text, x.pending = reason, text, false
	}
}

// giveUp notes that the resolver reads no further in what it got.
func (e *exchanges) giveUp(x *exchange) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if x.pending {
		x.reason, x.text, x.pending = verify.ReasonBadAnswer, "sent what is no answer", false
	}
}

// lastServer returns the server that was asked last; ok is false if none was.
func (e *exchanges) lastServer() (server string, ok bool) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if len(e.all) == 0 {
		return "", false
	}
	return e.all[len(e.all)-1].server, true
}

// close ends what the resolver left open. Even after its context has ended, the resolver waits for an answer as long as resolv.conf says.
func (e *exchanges) close() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for _, x := range e.all {
		_ = x.close() // closed already, unless the time was up
	}
}

// causes returns the reasons by how much they explain, the greatest first. A name that does not exist is last. A resolver without a good answer for one
// search domain reports it for the next.
func causes() []verify.Reason {
	return []verify.Reason{
		verify.ReasonTooLarge, verify.ReasonServerFailure, verify.ReasonRefused, verify.ReasonUnreachable, verify.ReasonReset,
		verify.ReasonBadAnswer, verify.ReasonError, verify.ReasonTimeout, verify.ReasonNoSuchName,
	}
}

// failure names what kept a name from being resolved.
func (e *exchanges) failure(name string, err error) failure {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for _, cause := range causes() {
		i := slices.IndexFunc(e.all, func(x *exchange) bool { return x.reason == cause })
		if i >= 0 {
			return failf(cause, "%s: %s %s", name, e.all[i].server, e.all[i].text)
		}
	}
	var ofDNS *net.DNSError
	if errors.As(err, &ofDNS) && ofDNS.IsNotFound {
		return failf(verify.ReasonNoSuchName, "%s has no address", name)
	}
	return failing(err, "%s", name)
}

// watched is a connection to a DNS server that notes what comes of the one question asked over it.
type watched struct {
	*bounded
	seen     *exchanges
	exchange *exchange

	prefix   int // bytes before a message: its length, over TCP
	asked    []byte
	answered []byte
}

// watch follows an exchange. The resolver concludes from the type of a connection whether it carries packets.
func (e *exchanges) watch(connection *bounded, server string) net.Conn {
	w := &watched{bounded: connection, seen: e, exchange: e.begin(server, connection.Close)}
	if packets, ok := connection.Conn.(net.PacketConn); ok {
		return watchedPackets{w, packets}
	}
	w.prefix = 2
	return w
}

// watchedPackets is one that carries packets. The resolver reads and writes it as any connection.
type watchedPackets struct {
	*watched
	net.PacketConn
}

// Close returns that of both.
func (w watchedPackets) Close() error { return w.watched.Close() }

func (w *watched) Write(message []byte) (int, error) {
	w.asked = head(w.asked, message, w.prefix)
	return w.bounded.Write(message)
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.bounded.Read(p)
	if err != nil {
		failed := asFailure(err)
		w.seen.broke(w.exchange, failed.reason, "sent no whole answer: "+failed.message)
		return n, err
	}
	judged := w.prefix > 0 && len(w.answered) == w.prefix+dnsHeader
	if w.prefix == 0 {
		w.answered = nil // each packet is a message
	}
	w.answered = head(w.answered, p[:n], w.prefix)
	if !judged && len(w.answered) == w.prefix+dnsHeader {
		w.judge(w.answered[w.prefix:])
	}
	return n, nil
}

// Close returns the resolver's.
func (w *watched) Close() error {
	if w.read.Load() > 0 {
		w.seen.giveUp(w.exchange)
	}
	return w.bounded.Close()
}

// judge notes what the header of a message says.
func (w *watched) judge(header []byte) {
	isAnswer := header[2]&0x80 != 0
	if len(w.asked) < w.prefix+dnsHeader || !bytes.Equal(header[:2], w.asked[w.prefix:w.prefix+2]) || !isAnswer {
		w.seen.end(w.exchange, verify.ReasonBadAnswer, "sent no answer to the question")
		return
	}
	switch code := header[3] & 0x0f; code {
	case codeSuccess:
		w.seen.end(w.exchange, "", "")
	case codeServerFailure:
		w.seen.end(w.exchange, verify.ReasonServerFailure, "answered SERVFAIL")
	case codeNoSuchName:
		w.seen.end(w.exchange, verify.ReasonNoSuchName, "answered NXDOMAIN")
	case codeRefused:
		w.seen.end(w.exchange, verify.ReasonRefused, "answered REFUSED")
	default:
		w.seen.end(w.exchange, verify.ReasonBadAnswer, fmt.Sprintf("answered with code %d", code))
	}
}

// head returns the start of a message up to the header's end, with the next bytes sent or received.
func head(soFar, next []byte, prefix int) []byte {
	room := prefix + dnsHeader - len(soFar)
	return append(soFar, next[:min(room, len(next))]...)
}
