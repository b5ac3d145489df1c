package serve

import (
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

// opened returns a connection from an address that was just accepted.
func (c *connections) opened(address string) (n, victim *connection) {
	n = &connection{Conn: closed{}, address: address, all: c}
	return n, c.add(n)
}

type closed struct{ net.Conn }

func (closed) Close() error { return nil }

func TestBeyondTheLimitTheAddressWithTheMostConnectionsLosesItsOldestOneWithoutARequest(t *testing.T) {
	c := newConnections(nil, 5)
	apiServer, victim := c.opened("api-server")
	assert.Nil(t, victim)
	var crowd []*connection
	for range 4 {
		n, victim := c.opened("attacker")
		assert.Nil(t, victim, "there is room")
		crowd = append(crowd, n)
	}
	c.track(crowd[0], http.StateActive)

	_, victim = c.opened("attacker")
	assert.Same(t, crowd[1], victim, "crowd[0] has a request")
	_ = victim.Close()
	_, victim = c.opened("api-server")
	assert.Same(t, crowd[2], victim, "another address's newcomer costs the crowd too")
	_ = victim.Close()
	assert.Contains(t, c.open, apiServer)
	assert.Len(t, c.open, 5)
}

func TestACrowdOfBusyConnectionsLosesItsNewcomerAndMakesRoomForOthers(t *testing.T) {
	c := newConnections(nil, 3)
	var crowd []*connection
	for range 3 {
		n, _ := c.opened("attacker")
		c.track(n, http.StateActive)
		crowd = append(crowd, n)
	}
	newcomer, victim := c.opened("attacker")
	assert.Same(t, newcomer, victim)
	_ = victim.Close()
	_, victim = c.opened("api-server")
	assert.Same(t, crowd[0], victim)
}

func TestAClosedConnectionCountsNoLonger(t *testing.T) {
	c := newConnections(nil, 5)
	n, _ := c.opened("a")
	_ = n.Close()
	_ = n.Close()
	assert.Empty(t, c.open)
	assert.Empty(t, c.count, "no address is held in memory")
}
