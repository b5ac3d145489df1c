package harness

import (
	"fmt"
	"net"
)

// ports are those that the programs are told to listen on.
type ports struct {
	etcd, apiServer string
}

// freePorts finds ports that nobody listens on. They are only probably free when the programs come to listen.
func freePorts() (ports, error) {
	var free [2]string
	for i := range free {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return ports{}, fmt.Errorf("find free port: %w", err)
		}
		// Closed only when both are found, or they could be the same.
		defer listener.Close()
		if _, free[i], err = net.SplitHostPort(listener.Addr().String()); err != nil {
			return ports{}, fmt.Errorf("find free port: %w", err)
		}
	}
	return ports{etcd: free[0], apiServer: free[1]}, nil
}

func (p ports) etcdURL() string { return "http://127.0.0.1:" + p.etcd }

func (p ports) apiServerURL() string { return "https://127.0.0.1:" + p.apiServer }
