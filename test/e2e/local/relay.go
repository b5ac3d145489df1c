package local

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"
)

// answerTimeout is how long a relay waits for the answer to a packet.
const answerTimeout = 30 * time.Second

// relay passes the traffic of a Service's port to its endpoints. Each TCP connection, and each UDP packet, gets a random endpoint.
type relay struct {
	endpoints atomic.Pointer[[]string]
	listener  io.Closer
}

func newRelay(front frontend, endpoints []string) (*relay, error) {
	r := &relay{}
	r.endpoints.Store(&endpoints)
	if front.network == "udp" {
		packets, err := net.ListenPacket(front.network, front.address)
		if err != nil {
			return nil, fmt.Errorf("relay: %w", err)
		}
		r.listener = packets
		go r.packets(packets)
		return r, nil
	}
	listener, err := net.Listen(front.network, front.address)
	if err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	r.listener = listener
	go r.connections(listener)
	return r, nil
}

func (r *relay) close() error { return r.listener.Close() }

func (r *relay) choose() string {
	endpoints := *r.endpoints.Load()
	return endpoints[rand.IntN(len(endpoints))]
}

func (r *relay) connections(listener net.Listener) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		go pass(from, r.choose())
	}
}

// pass joins two connections until either ends. An endpoint that is down is a connection that ends at once.
func pass(from net.Conn, address string) {
	defer from.Close()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			done <- struct{}{}
		}()
	}
	<-done
}

func (r *relay) packets(from net.PacketConn) {
	buffer := make([]byte, 64<<10)
	for {
		n, client, err := from.ReadFrom(buffer)
		if err != nil {
			return
		}
		question := bytes.Clone(buffer[:n])
		go func() {
			if answer, err := ask(r.choose(), question); err == nil { // otherwise it is lost, as packets may be
				_, _ = from.WriteTo(answer, client)
			}
		}()
	}
}

// ask sends a packet and returns the answer to it: in DNS there is one.
func ask(address string, question []byte) ([]byte, error) {
	endpoint, err := net.Dial("udp", address)
	if err != nil {
		return nil, err
	}
	defer endpoint.Close()
	if err := endpoint.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return nil, err
	}
	if _, err := endpoint.Write(question); err != nil {
		return nil, err
	}
	buffer := make([]byte, 64<<10)
	n, err := endpoint.Read(buffer)
	return buffer[:n], err
}
