package harness

import (
	"fmt"
	"net"
	"strings"
)

// ports are those that the programs are told to listen on.
type ports struct {
	etcd, apiServer string
}

// FreeAddresses are so many loopback addresses that nobody listens on. They are only probably free when the programs come to listen.
func FreeAddresses(count int) (addresses []string, err error) {
	for range count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find free port: %w", err)
		}
		defer listener.Close() // only when all are found, or they could be the same
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}

// freePorts are those of a cluster.
func freePorts() (ports, error) {
	free, err := FreeAddresses(2)
	if err != nil {
		return ports{}, err
	}
	return ports{etcd: port(free[0]), apiServer: port(free[1])}, nil
}

// port is that of an address.
func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

func (p ports) etcdURL() string { return "http://127.0.0.1:" + p.etcd }

func (p ports) apiServerURL() string { return "https://127.0.0.1:" + p.apiServer }
