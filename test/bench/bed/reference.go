package bed

import (
	"context"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// ReferenceCommand is the argument with which this program is started again as the server of the reference webhooks. They share no process, and no
// garbage collector, with the clients.
const ReferenceCommand = "reference"

// reference is the running server of the webhooks that nodekeep is compared with.
type reference struct {
	process *harness.Process
	address string
}

// startReference starts the server when it is needed first.
func (b *Bed) startReference(ctx context.Context) {
	if b.reference != nil {
		return
	}
	address := b.freeAddresses(1)[0]
	started := &reference{address: address, process: b.self(ReferenceCommand, address, b.file(certFile), b.file(keyFile))}
	b.Wait(ctx, settles, Look, "the reference webhooks answer", func(ctx context.Context) (bool, error) {
		_, err := b.get(ctx, "https://"+address+countPath)
		return err == nil, nil
	})
	b.reference = started
}

// served returns how many reviews the reference webhooks have answered so far; 0 where no server runs.
func (b *Bed) served(ctx context.Context) int {
	if b.reference == nil {
		return 0
	}
	page, err := b.get(ctx, "https://"+b.reference.address+countPath)
	require.NoError(b, err)
	count, err := strconv.Atoi(strings.TrimSpace(string(page)))
	require.NoError(b, err)
	return count
}
