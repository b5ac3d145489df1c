package local

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// idle is how long a relay remembers a client that sends packets and gets none. The kernel's connection tracking does the same for UDP.
const idle = 30 * time.Second

// relay passes the traffic of a Service's port to its endpoints. Each TCP connection, and each UDP client, gets a random endpoint.
type relay struct {
	endpoints atomic.Pointer[[]string]
	listener  io.Closer

	mu      sync.Mutex
	clients map[string]net.Conn // of UDP, by the client's address
}

func newRelay(at frontend, endpoints []string) (*relay, error) {
	r := &relay{clients: map[string]net.Conn{}}
	r.endpoints.Store(&endpoints)
	if at.network == "udp" {
		packets, err := net.ListenPacket(at.network, at.address)
		if err != nil {
			return nil, fmt.Errorf("relay: %w", err)
		}
		r.listener = packets
		go r.packets(packets)
		return r, nil
	}
	listener, err := net.Listen(at.network, at.address)
	if err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	r.listener = listener
	go r.connections(listener)
	return r, nil
}

func (r *relay) close() error {
	err := r.listener.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, endpoint := range r.clients {
		err = errors.Join(err, endpoint.Close())
	}
	clear(r.clients)
	return err
}

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
		endpoint, err := r.endpointOf(from, client)
		if err != nil {
			continue // lost, as packets may be
		}
		_, _ = endpoint.Write(buffer[:n])
	}
}

// endpointOf is the connection by which the packets of a client go to its endpoint.
func (r *relay) endpointOf(from net.PacketConn, client net.Addr) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := client.String()
	if endpoint := r.clients[name]; endpoint != nil {
		return endpoint, nil
	}
	endpoint, err := net.Dial("udp", r.choose())
	if err != nil {
		return nil, err
	}
	r.clients[name] = endpoint
	go func() {
		r.answers(from, client, endpoint)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.clients[name] == endpoint {
			delete(r.clients, name)
		}
		_ = endpoint.Close()
	}()
	return endpoint, nil
}

// answers passes packets back until none has come for a while.
func (r *relay) answers(from net.PacketConn, client net.Addr, endpoint net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		if err := endpoint.SetReadDeadline(time.Now().Add(idle)); err != nil {
			return
		}
		n, err := endpoint.Read(buffer)
		if err != nil {
			return
		}
		if _, err := from.WriteTo(buffer[:n], client); err != nil {
			return
		}
	}
}
