package harness

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
)

// ports are those that the programs listen on.
type ports struct {
	etcd, apiServer string
}

// Ports are chosen below those that Linux gives to outgoing connections (from 32768 on). The many clients of a control plane would
// otherwise take the port of a process while it is down.
const (
	firstPort = 12000
	endPort   = 30000
)

// FreeAddresses returns so many loopback addresses that nobody listens on. They stay reserved among the test programs of this machine until this program
// ends. So a stopped process finds its port free when it starts again.
func FreeAddresses(count int) (addresses []string, err error) {
	for tries := 0; len(addresses) < count; tries++ {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(endPort-firstPort))
		if err = reserve(address); err == nil {
			addresses = append(addresses, address)
		} else if tries > endPort-firstPort {
			return nil, fmt.Errorf("find free port: %w", err)
		}
	}
	return addresses, nil
}

// reserve holds the UDP port of the number, which no program here uses, in place of the TCP port.
func reserve(address string) error {
	reservation, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return errors.Join(err, reservation.Close())
	}
	reservations.add(reservation)
	return listener.Close()
}

// reservations keeps the reserved ports open: what nothing refers to is closed.
var reservations reservedPort

type reservedPort struct {
	mu    sync.Mutex
	ports []net.PacketConn
}

func (h *reservedPort) add(c net.PacketConn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ports = append(h.ports, c)
}

// freePorts returns those of a cluster.
func freePorts() (ports, error) {
	free, err := FreeAddresses(2)
	if err != nil {
		return ports{}, err
	}
	return ports{etcd: port(free[0]), apiServer: port(free[1])}, nil
}

// port returns that of an address.
func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

func (p ports) etcdURL() string { return "http://127.0.0.1:" + p.etcd }

func (p ports) apiServerURL() string { return "https://127.0.0.1:" + p.apiServer }
