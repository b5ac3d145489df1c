package serve

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// maxConnections bounds what connections take of memory, about 60 KiB each. An API server keeps 25 idle ones.
const maxConnections = 512

// connections limits how many connections are open. Beyond the limit it closes a connection of the address with the most of them. So a
// client that opens many connections closes its own.
type connections struct {
	net.Listener
	limit int

	mu    sync.Mutex
	open  []*connection // in order of their arrival
	count map[string]int
}

func newConnections(listener net.Listener, limit int) *connections {
	return &connections{Listener: listener, limit: limit, count: map[string]int{}}
}

type connection struct {
	net.Conn
	address string
	all     *connections
	busy    bool // with a request; guarded by all.mu
}

// Accept returns the next connection that there is room for.
func (c *connections) Accept() (net.Conn, error) {
	for {
		accepted, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		n := &connection{Conn: accepted, address: AddressOf(accepted.RemoteAddr().String()), all: c}
		victim := c.add(n)
		if victim != nil {
			_ = victim.Close()
		}
		if victim != n {
			return n, nil
		}
	}
}

// add adds a connection. If one must be closed for it, add returns that connection, which may be the new one.
func (c *connections) add(n *connection) (victim *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, n)
	c.count[n.address]++
	if len(c.open) <= c.limit {
		return nil
	}
	busiest := n.address
	for address, count := range c.count {
		if count > c.count[busiest] {
			busiest = address
		}
	}
	fn := func(busy bool) int {
		return slices.IndexFunc(c.open, func(o *connection) bool { return o.address == busiest && o.busy == busy })
	}
	if idle := fn(false); idle >= 0 {
		return c.open[idle]
	}
	return c.open[fn(true)]
}

// Close closes the connection and counts it no longer.
func (n *connection) Close() error {
	n.all.remove(n)
	return n.Conn.Close()
}

func (c *connections) remove(n *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.open, n)
	if i < 0 {
		return // it is closed already
	}
	c.open = slices.Delete(c.open, i, i+1)
	if c.count[n.address]--; c.count[n.address] == 0 {
		delete(c.count, n.address)
	}
}

// track is for [http.Server.ConnState]: it knows which connections have a request.
func (c *connections) track(conn net.Conn, state http.ConnState) {
	if wrapped, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = wrapped.NetConn()
	}
	n, ok := conn.(*connection)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n.busy = state == http.StateActive
}
