package check

import (
	"context"
	"net"

	"nodekeep.dev/nodekeep/verify"
)

// TCP connects to an address.
func (t try) TCP(asked *verify.TCP) error {
	ctx, cancel := t.single()
	defer cancel()
	return t.pod.tcp(ctx, string(*asked))
}

// tcp connects, and nothing else.
func (p Pod) tcp(ctx context.Context, address string) error {
	connection, err := p.dial(ctx, "tcp", address)
	if err != nil {
		host, _, _ := net.SplitHostPort(address) // without one, nothing is repeated
		return failing(dialFailure(err, host), "connect to %s", address)
	}
	_ = connection.Close() // nothing was sent
	return nil
}
