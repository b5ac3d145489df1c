package local

import (
	"fmt"
	"io"
	"net"
	"net/url"
)

// serviceAddress is that of Service kubernetes, from which the kubelet tells its pods where the API server is.
const serviceAddress = "10.96.0.1"

// relay answers at the address of Service kubernetes and passes the bytes on to the API server, as kube-proxy lets the kernel do.
func relay(apiServer string) (io.Closer, error) {
	target, err := url.Parse(apiServer)
	if err != nil {
		return nil, fmt.Errorf("relay to API server: %w", err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(serviceAddress, "443"))
	if err != nil {
		return nil, fmt.Errorf("relay to API server: %w", err)
	}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go pass(from, target.Host)
		}
	}()
	return listener, nil
}

// pass joins two connections until either ends. An API server that is down is a connection that ends at once.
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
