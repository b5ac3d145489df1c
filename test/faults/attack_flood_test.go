package faults

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// mostMemory is what the webhook may hold at any time, whatever callers send.
const mostMemory = 256 << 20

// attackers are the addresses of pods without identity. A pod has an address of its own, and the API server has another one.
var attackers = []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"}

func dialFrom(address string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: settles}
}

// attackerClient is a caller without identity, which speaks HTTP/1.1 as anybody beyond loopback has to.
func attackerClient(t testing.TB, address string, connections int) *http.Client {
	t.Helper()
	transport := &http.Transport{
		DialContext: dialFrom(address).DialContext, MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections,
		TLSClientConfig: &tls.Config{RootCAs: webhookRoots(t), NextProtos: []string{"http/1.1"}},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: settles}
}

func webhookRoots(t testing.TB) *x509.CertPool {
	t.Helper()
	return webhookClient(t).Transport.(*http.Transport).TLSClientConfig.RootCAs
}

// freshWebhook starts the webhook anew, so that its memory is that of one test, and returns its process id.
func freshWebhook(t testing.TB) (pid int) {
	t.Helper()
	withoutWebhook(t, func() {})
	untilCalled(t, true)
	return nodekeep.Cluster.Process("nodekeep-webhook").Pid()
}

// survived asserts that the process of the webhook is the same as before and never held too much memory.
func survived(t testing.TB, pid int) {
	t.Helper()
	assert.Equal(t, pid, nodekeep.Cluster.Process("nodekeep-webhook").Pid())
	held := resident(t, pid, "VmHWM")
	t.Logf("the webhook held %d MiB at most", held>>20)
	assert.Less(t, held, mostMemory)
}

// registrations are what kubelets went through that registered their Nodes again and again.
type registrations struct {
	took    []time.Duration
	refused []string
	missed  []string // stored without what is remembered, sooner than after webhookTimeout
	excused int      // the same, later
}

// p99 is the time that one registration in a hundred exceeded.
func p99(took []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[(len(sorted)*99-1)/100]
}

// again has each kubelet register its Node so many times, and longer while goOn says so.
func (r returning) again(t testing.TB, times int, goOn func() bool) (made registrations) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, name := range r.names {
		client := kubelet(t, name)
		all.Go(func() {
			for n := 0; n < times || goOn(); n++ {
				deleted := nodekeep.Admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{})
				began := time.Now()
				back, err := client.CoreV1().Nodes().Create(t.Context(), registration(name, nil), metav1.CreateOptions{})
				took := time.Since(began)
				mu.Lock()
				made.took = append(made.took, took)
				switch {
				case deleted != nil:
					made.refused = append(made.refused, deleted.Error())
				case err != nil:
					made.refused = append(made.refused, err.Error())
				case gated(back) || !hasAll(back.Labels, r.want):
					if took >= webhookTimeout {
						made.excused++
						break
					}
					made.missed = append(made.missed, fmt.Sprintf("%s after %s: gated %t, %v", name, took, gated(back), back.Labels))
				}
				mu.Unlock()
				time.Sleep(pace)
			}
		})
	}
	all.Wait()
	return made
}

func never() bool { return false }

func (r registrations) whole(t testing.TB) {
	t.Helper()
	assert.Empty(t, r.refused)
	assert.Empty(t, r.missed)
	t.Logf("%d registrations, of which %d were not restored but took %s or longer", len(r.took), r.excused, webhookTimeout)
}

// records are all records but those of Nodes with the prefix, as the API server has them.
func recordsBut(t testing.TB, prefix string) map[string]string {
	t.Helper()
	list, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: store.RecordLabel + "=true"})
	require.NoError(t, err)
	records := map[string]string{}
	for _, cm := range list.Items {
		if !strings.HasPrefix(cm.Name, store.Name(prefix)) {
			records[cm.Name] = cm.ResourceVersion + " " + cm.Data[store.DataKey]
		}
	}
	return records
}

// forgedReview is one of the reviews of an attacker, in turns: of Nodes that exist, that are gone, that never were; and what is no review.
func forgedReview(number int, living *corev1.Node, gone string) []byte {
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"forged","operation":%q,` +
		`"kind":{"version":"v1","kind":"Node"},"resource":{"version":"v1","resource":"nodes"},"name":%q,` +
		`"userInfo":{"username":%q,"groups":["system:nodes","system:masters"]},"object":%s,"oldObject":%s}}`
	node := func(name, uid string, version int) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q,"resourceVersion":"%d","labels":{"node-role.kubernetes.io/control-plane":"","dedicated":"attacker"}},`+
			`"spec":{"taints":[{"key":"attacker","effect":"NoExecute"}]}}`, name, uid, version)
	}
	creation := func(name, user string) []byte {
		return fmt.Appendf(nil, review, "CREATE", name, user, node(name, "", 0), "null")
	}
	deletion := func(name, uid string, version int) []byte {
		return fmt.Appendf(nil, review, "DELETE", name, "system:admin", "null", node(name, uid, version))
	}
	kinds := [][]byte{
		creation(living.Name, "system:node:"+living.Name),
		creation(gone, "system:admin"),
		creation(fmt.Sprintf("never-%d", number), "system:node:never"),
		deletion(living.Name, string(living.UID), 999_999_999),
		deletion(living.Name, "another-uid", 999_999_999),
		deletion(gone, "another-uid", 999_999_999),
		deletion(fmt.Sprintf("never-%d", number), "a-uid", 1),
		{},
		[]byte("{"),
		[]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`),
		bytes.Repeat([]byte("["), 20_000),
		reviewOf(`{"metadata":{"name":"hostile"},"status":` + strings.Repeat(`{"a":`, 9_000) + "1" + strings.Repeat("}", 9_000) + `}`),
		reviewOf(`{"metadata":{"labels":[1,2]},"spec":"none"}`),
		reviewOf("{\"metadata\":{\"name\":\"a\xff\",\"labels\":{\"a\xff\xfe\":\"\xc3\x28\"}}}"),
		reviewOf(`{"metadata":{"name":"hostile"},"spec":{"taints":[` + strings.Repeat(`{},`, 20_000) + `{}]}}`),
	}
	return kinds[number%len(kinds)]
}

// flood sends reviews over so many connections, each of which rests between two of them.
type flood struct {
	client      *http.Client
	paths       []string
	connections int
	rest        time.Duration
	make        func(number int) []byte

	sent, answered, refused, busy, failed atomic.Int64
}

// send sends the reviews with the numbers from first on. done reports whether all are answered.
func (f *flood) send(ctx context.Context, address string, first, count int) (done func() bool, wait func()) {
	var next, left atomic.Int64
	left.Store(int64(f.connections))
	var all sync.WaitGroup
	for range f.connections {
		all.Go(func() {
			defer left.Add(-1)
			for n := int(next.Add(1)) - 1; n < count && ctx.Err() == nil; n = int(next.Add(1)) - 1 {
				url := "https://" + address + f.paths[(first+n)/20%len(f.paths)] + "?timeout=1s"
				f.count(f.client.Post(url, "application/json", bytes.NewReader(f.make(first+n))))
				time.Sleep(f.rest)
			}
		})
	}
	return func() bool { return left.Load() == 0 }, all.Wait
}

func (f *flood) count(response *http.Response, err error) {
	f.sent.Add(1)
	if err != nil {
		f.failed.Add(1) // its connection was closed
		return
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		f.answered.Add(1)
	case http.StatusServiceUnavailable:
		f.busy.Add(1)
	default:
		f.refused.Add(1)
	}
}

func (f *flood) String() string {
	return fmt.Sprintf("%d reviews sent: %d answered, %d refused, %d sent back, %d connections closed",
		f.sent.Load(), f.answered.Load(), f.refused.Load(), f.busy.Load(), f.failed.Load())
}

func TestAFloodOfForgedReviewsChangesNoRecordAndDelaysNoRegistration(t *testing.T) {
	const reviews, phases, perPhase = 10_000, 10, 10
	for name, paths := range map[string][]string{
		"of registrations":         {"/restore", "/restore-protected"},
		"of registrations and all": {"/restore", "/restore-protected", "/capture"},
	} {
		t.Run(name, func(t *testing.T) {
			prefix := fmt.Sprintf("flooded-%d", len(paths))
			nodes := rememberNodes(t, prefix, 4, ordinary)
			living := remembered(t, fmt.Sprintf("living-%d", len(paths)), ordinary)
			living = getNode(t, living.Name)
			gone := fmt.Sprintf("gone-%d", len(paths))
			remembered(t, gone, ordinary)
			deleteNode(t, gone)
			require.Eventually(t, func() bool { record, ok := recordOf(t, gone); return ok && !record.DeletedAt.IsZero() }, settles, 20*time.Millisecond)
			pid := freshWebhook(t)
			f := &flood{client: attackerClient(t, attackers[0], 50), paths: paths, connections: 50, rest: 100 * time.Millisecond, make: func(n int) []byte { return forgedReview(n, living, gone) }}
			before := recordsBut(t, prefix)

			for attempt := 1; ; attempt++ {
				var quiet, flooded registrations
				var halves [2][]time.Duration
				for phase := range phases {
					undisturbed := nodes.again(t, perPhase, never)
					halves[phase*2/phases] = append(halves[phase*2/phases], undisturbed.took...)
					quiet.add(undisturbed)
					done, wait := f.send(t.Context(), webhookAddress(t), phase*reviews/phases, reviews/phases)
					flooded.add(nodes.again(t, 1, func() bool { return !done() }))
					wait()
				}
				quiet.whole(t)
				flooded.whole(t)
				calm, harassed := p99(quiet.took), p99(flooded.took)
				t.Logf("attempt %d: p99 %s of %d registrations undisturbed (first half %s, second half %s), %s of %d in the flood; %s",
					attempt, round(calm), len(quiet.took), round(p99(halves[0])), round(p99(halves[1])), round(harassed), len(flooded.took), f)
				steady := max(p99(halves[0]), p99(halves[1])) < 2*min(p99(halves[0]), p99(halves[1]))
				if harassed <= 2*calm {
					break
				}
				if attempt == 3 {
					assert.False(t, steady, "p99 in the flood must be within 2 times of the undisturbed one, and this machine is steady enough to tell")
					break
				}
			}
			assert.GreaterOrEqual(t, f.sent.Load(), int64(reviews))
			assert.Equal(t, before, recordsBut(t, prefix))
			survived(t, pid)
		})
	}
}

func (r *registrations) add(more registrations) {
	r.took = append(r.took, more.took...)
	r.refused = append(r.refused, more.refused...)
	r.missed = append(r.missed, more.missed...)
	r.excused += more.excused
}

func TestReviewsOfSixMiBFrom150CallersKeepNoRegistrationWaitingAndTheWebhookWithinItsMemory(t *testing.T) {
	const size = 6 << 20
	fill := func(head, item, tail string) []byte {
		return reviewOf(head + strings.Repeat(item, (size-len(head)-len(tail)-400)/len(item)) + tail)
	}
	var labels strings.Builder
	for n := 0; labels.Len() < size-1000; n++ {
		fmt.Fprintf(&labels, `"%x":"",`, n)
	}
	list := func(items int) []byte {
		return reviewOf(`{"metadata":{"name":"hostile"},"spec":{"taints":[` + strings.Repeat(`{},`, items) + `{}]}}`)
	}
	bodies := [][]byte{
		list(190_000),
		[]byte(strings.Replace(string(reviewOf("null")), `"system:nodes"`, strings.Repeat(`"",`, 1_000_000)+`"system:nodes"`, 1)),
		fill(`{"metadata":{"name":"hostile","annotations":{"a":"`, "x", `"}}}`),
		fill(`{"metadata":{"name":"hostile"},"spec":{"taints":[`, "{},", `{}]}}`),
		reviewOf(`{"metadata":{"name":"hostile","labels":{` + labels.String() + `"last":""}}}`),
		[]byte(strings.Replace(string(reviewOf("null")), `"system:nodes"`, strings.Repeat(`"",`, size/3)+`"system:nodes"`, 1)),
	}
	nodes := rememberNodes(t, "crushed", 4, ordinary)
	pid := freshWebhook(t)
	var callers []*flood
	var dones []func() bool
	for _, address := range attackers {
		f := &flood{client: attackerClient(t, address, 50), paths: []string{"/restore", "/restore-protected", "/capture"}, connections: 50, make: func(n int) []byte { return bodies[n%len(bodies)] }}
		done, wait := f.send(t.Context(), webhookAddress(t), 0, 200)
		defer wait()
		callers, dones = append(callers, f), append(dones, done)
	}
	made := nodes.again(t, 10, func() bool { return slices.ContainsFunc(dones, func(done func() bool) bool { return !done() }) })
	busy := int64(0)
	for _, f := range callers {
		t.Log(f)
		busy += f.busy.Load()
	}
	t.Logf("%d registrations, p99 %s", len(made.took), round(p99(made.took)))
	made.whole(t)
	assert.NotZero(t, busy, "900 MiB at once do not fit")
	survived(t, pid)

	// Each of them is decoded when its callers wait for one another, and decoding makes more of it.
	patient := attackerClient(t, attackers[0], 1)
	for n, body := range bodies {
		require.Eventually(t, func() bool {
			response, err := patient.Post("https://"+webhookAddress(t)+"/restore", "application/json", bytes.NewReader(body))
			if err != nil {
				return false
			}
			defer response.Body.Close()
			return response.StatusCode == http.StatusOK || response.StatusCode == http.StatusBadRequest
		}, settles, 100*time.Millisecond, "body %d must be answered or refused", n)
		t.Logf("body %d: %d MiB at most so far", n, resident(t, pid, "VmHWM")>>20)
	}
	survived(t, pid)
}

func TestCallersThatTrickleAreLeftAndKeepNoRegistrationWaiting(t *testing.T) {
	const tricklers, leftSoon = 100, 8 * time.Second
	nodes := rememberNodes(t, "trickled", 4, ordinary)
	pid := freshWebhook(t)
	roots, address := webhookRoots(t), webhookAddress(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var left, opened, soon atomic.Int64
	var all sync.WaitGroup
	for n := range tricklers {
		start := []string{
			"POST /restore HTTP/1.1\r\nHost: webhook\r\nContent-Length: 6291456\r\n\r\n{",
			"POST /capture HTTP/1.1\r\nHost: webhook\r\nContent-Length: 20000\r\n\r\n{",
			"POST /restore HTTP/1.1\r\nHost: webhook\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
			"POST /restore HTTP/1.1\r\nX-Header: ",
		}[n%4]
		all.Go(func() {
			connection, err := (&tls.Dialer{NetDialer: dialFrom(attackers[n%len(attackers)]), Config: &tls.Config{RootCAs: roots}}).DialContext(ctx, "tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			defer connection.Close()
			opened.Add(1)
			began := time.Now()
			go func() {
				_, _ = io.Copy(io.Discard, connection)
				left.Add(1)
				if time.Since(began) < leftSoon {
					soon.Add(1)
				}
			}()
			if _, err = io.WriteString(connection, start); err != nil {
				return
			}
			for ctx.Err() == nil {
				trickle := " "
				if n%4 == 2 {
					trickle = "1\r\n \r\n"
				}
				if _, err := io.WriteString(connection, trickle); err != nil {
					return
				}
				time.Sleep(200 * time.Millisecond)
			}
		})
	}
	made := nodes.again(t, 20, never)
	assert.Eventually(t, func() bool { return left.Load() == tricklers }, settles, 10*time.Millisecond, "they are left although they go on")
	stop()
	all.Wait()
	assert.EqualValues(t, tricklers, opened.Load())
	assert.NotZero(t, soon.Load(), "a machine that stands still may be late for some of them, not for all")
	t.Logf("%d registrations, p99 %s", len(made.took), round(p99(made.took)))
	made.whole(t)
	survived(t, pid)
}

func TestManyIdleConnectionsKeepNoRegistrationWaiting(t *testing.T) {
	const idle = 1_500
	nodes := rememberNodes(t, "crowded", 4, ordinary)
	pid := freshWebhook(t)
	roots, address := webhookRoots(t), webhookAddress(t)
	var open, closed atomic.Int64
	var connections sync.Map
	defer connections.Range(func(connection, _ any) bool { _ = connection.(net.Conn).Close(); return true })
	var all sync.WaitGroup
	for worker := range 20 {
		all.Go(func() {
			for n := range idle / 20 {
				raw, err := dialFrom(attackers[worker%len(attackers)]).DialContext(t.Context(), "tcp", address)
				if err != nil {
					t.Error(err)
					return
				}
				connections.Store(raw, nil)
				open.Add(1)
				if n%3 > 0 { // the others never say anything
					// After a request a connection may rest for 150 s.
					connection := tls.Client(raw, &tls.Config{RootCAs: roots, ServerName: loopback})
					_, _ = io.WriteString(connection, "GET /restore HTTP/1.1\r\nHost: webhook\r\n\r\n")
					_, _ = connection.Read(make([]byte, 1))
				}
				go func() { _, _ = io.Copy(io.Discard, raw); closed.Add(1) }()
			}
		})
	}
	made := nodes.again(t, 20, never)
	all.Wait()
	made.add(nodes.again(t, 20, never))
	require.EqualValues(t, idle, open.Load())
	assert.Eventually(t, func() bool { return idle-closed.Load() <= 512 }, settles, 10*time.Millisecond, "no more than 512 are kept")
	t.Logf("%d registrations, p99 %s; %d of %d connections were closed", len(made.took), round(p99(made.took)), closed.Load(), idle)
	made.whole(t)
	survived(t, pid)
}
