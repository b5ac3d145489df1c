package faults

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// The ports for metrics and probes ask nobody who calls, and those of capture are on the network of its host, where no NetworkPolicy applies.
func TestAFloodOfScrapesAndProbesLeavesBothProcessesWithinTheirMemoryAndAnswersPrometheusAndTheKubelet(t *testing.T) {
	for _, process := range []string{"webhook", "capture"} {
		t.Run(process, func(t *testing.T) {
			nodekeep.RegisterRecorded(t, "scraped-"+process, ordinary)
			nodekeep.WithoutBoth(t, func() {}) // so that the memory is that of this test
			pid := nodekeep.Cluster.Process("nodekeep-" + process).Pid()
			scrape, ready := nodekeep.MetricsURL(process), nodekeep.ReadyURL(process)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var all sync.WaitGroup
			var answered atomic.Int64
			for _, target := range []string{scrape, ready} {
				all.Go(func() { crowd(ctx, t, attackers[0], target, 4_000, &answered) })
			}
			for _, idle := range []bool{true, false} { // who asks once and keeps the connection, and who does not read the answer
				all.Go(func() { silent(ctx, t, attackers[1], scrape, 500, idle) })
			}

			scraper, o, kubelet := caller("127.0.0.10"), caller("127.0.0.11"), caller("127.0.0.12")
			for n := range 20 {
				var group sync.WaitGroup
				for _, client := range []*http.Client{scraper, o} {
					group.Go(func() {
						assert.Contains(t, read(t, client, scrape), "\nprocess_resident_memory_bytes ", "scrape %d", n)
					})
				}
				assert.Equal(t, "ok\n", read(t, kubelet, ready), "probe %d", n)
				group.Wait()
			}
			stop()
			all.Wait()
			assert.NotZero(t, answered.Load(), "the crowd was there")
			assert.Equal(t, pid, nodekeep.Cluster.Process("nodekeep-"+process).Pid())
			held := resident(t, pid, "VmHWM")
			t.Logf("%s held %d MiB at most, and answered %d requests of the crowd", process, held>>20, answered.Load())
			assert.Less(t, held, mostMemory)
		})
	}
}

// caller returns a client from an address of its own, with a new connection for each request, as a kubelet's probe has.
func caller(address string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: dialFrom(address).DialContext, DisableKeepAlives: true}, Timeout: harness.Settles}
}

// read returns the answer to a request. A caller asks again if its connection was closed, as Prometheus and kubelets do.
func read(t testing.TB, client *http.Client, from string) string {
	t.Helper()
	var body []byte
	assert.Eventually(t, func() bool {
		response, err := client.Get(from)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		body, err = io.ReadAll(response.Body)
		return err == nil && response.StatusCode == http.StatusOK
	}, harness.Settles, 10*time.Millisecond, "%s", from)
	return string(body)
}

// crowd opens so many connections, and asks on each of them until it is closed or ctx is done.
func crowd(ctx context.Context, t testing.TB, from, target string, connections int, answered *atomic.Int64) {
	address, err := url.Parse(target)
	require.NoError(t, err)
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			connection, err := dialFrom(from).DialContext(ctx, "tcp", address.Host)
			if err != nil {
				return // the ports of the address are in use, or ctx is done
			}
			defer connection.Close()
			defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
			buffer := make([]byte, 4096)
			for ctx.Err() == nil {
				if _, err := fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", address.Path); err != nil {
					return
				}
				for whole := false; !whole; { // the answer of either path ends in a line break, or a chunk of length 0
					n, err := connection.Read(buffer)
					if err != nil {
						return
					}
					whole = strings.HasSuffix(string(buffer[:n]), "\n")
				}
				answered.Add(1)
			}
		})
	}
	all.Wait()
}

// silent opens so many connections, asks once on each, and reads only the first byte of the answer, or nothing.
func silent(ctx context.Context, t testing.TB, from, target string, connections int, reads bool) {
	address, err := url.Parse(target)
	require.NoError(t, err)
	var open []net.Conn
	for range connections {
		connection, err := dialFrom(from).DialContext(ctx, "tcp", address.Host)
		if err != nil {
			break
		}
		open = append(open, connection)
		if tcp, ok := connection.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(1024)
		}
		_, _ = fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", address.Path)
		if reads {
			_, _ = connection.Read(make([]byte, 1))
		}
	}
	<-ctx.Done()
	for _, connection := range open {
		_ = connection.Close()
	}
}
