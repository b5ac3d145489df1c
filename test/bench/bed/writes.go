package bed

import (
	"net/http"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness/proxy"
)

// Kind is what a request writes.
type Kind string

// The kinds. Requests that write nothing, dry runs and what is renewed for ever (Leases) are of none.
const (
	RecordCreated Kind = "record created"
	RecordChanged Kind = "record changed"
	RecordDeleted Kind = "record deleted"
	NodeChanged   Kind = "Node changed"
	EventWritten  Kind = "Event"
	OtherWrite    Kind = "other"
)

// Counter counts the requests of nodekeep's processes that write, whether they succeed or not. Both kinds cost the API server as much.
type Counter struct {
	mu     sync.Mutex
	counts map[Kind]int
}

// CountWrites has the processes that are started from now on go through a proxy that counts what they write.
func (b *Bed) CountWrites() *Counter {
	c := &Counter{counts: map[Kind]int{}}
	proxied, err := proxy.Start(b.cluster.Admin())
	require.NoError(b, err)
	b.Route = proxied.Config
	proxied.Break(proxy.Report(proxy.Writes, func(r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if kind := kindOf(r); kind != "" {
			c.counts[kind]++
		}
	}))
	return c
}

// Take returns the counts since the last Take.
func (c *Counter) Take() map[Kind]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.counts
	c.counts = map[Kind]int{}
	return taken
}

// Total returns how many there are since the last Take.
func (c *Counter) Total() (total int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, count := range c.counts {
		total += count
	}
	return total
}

func kindOf(r *http.Request) Kind {
	path := r.URL.Path
	switch {
	case r.URL.Query().Has("dryRun"), strings.HasPrefix(path, "/apis/coordination.k8s.io/"),
		strings.HasPrefix(path, "/apis/authorization.k8s.io/"), strings.HasPrefix(path, "/apis/authentication.k8s.io/"):
		return "" // reviews of rights and tokens store nothing
	case strings.HasPrefix(path, "/api/v1/nodes/"):
		return NodeChanged
	case proxy.RecordRemovals(r):
		return RecordDeleted
	case strings.HasSuffix(path, "/configmaps") && r.Method == http.MethodPost:
		return RecordCreated
	case strings.Contains(path, "/configmaps/"):
		return RecordChanged
	case strings.Contains(path, "/events"):
		return EventWritten
	default:
		return OtherWrite
	}
}
