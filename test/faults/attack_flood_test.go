package faults

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
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
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// allPaths are those that the webhook serves reviews at.
var allPaths = []string{"/restore", "/restore-protected", "/deletion"}

// attackers are the addresses of pods without identity. A pod has an address of its own, and the API server has another one.
var attackers = []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"}

func dialFrom(address string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: harness.Settles}
}

// attackerClient returns a caller without identity, which speaks HTTP/1.1 as anybody beyond loopback has to.
func attackerClient(t testing.TB, address string, connections int) *http.Client {
	t.Helper()
	transport := &http.Transport{
		DialContext: dialFrom(address).DialContext, MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections,
		TLSClientConfig: &tls.Config{RootCAs: authorities(webhookBundle(t)), NextProtos: []string{"http/1.1"}},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: harness.Settles}
}

// recordsBut returns all records but those of Nodes with the prefix, as the API server has them.
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

// forgedReview returns one of the reviews of an attacker, in turns: of Nodes that exist, that are deleted, that never were; and what is no review.
func forgedReview(number int, living *corev1.Node, gone string) []byte {
	node := func(name, uid string, version int) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q,"resourceVersion":"%d","labels":{"node-role.kubernetes.io/control-plane":"","dedicated":"attacker"}},`+
			`"spec":{"taints":[{"key":"attacker","effect":"NoExecute"}]}}`, name, uid, version)
	}
	creation := func(name, user string) []byte { return review("CREATE", name, user, node(name, "", 0)) }
	deletion := func(name, uid string, version int) []byte {
		return review("DELETE", name, "system:admin", node(name, uid, version))
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

// Whether the flood delays registrations is a question of how long they take, which a machine with other work cannot answer. So that
// is asserted where long faults are asked for, which run alone.
func TestAFloodOfForgedReviewsChangesNoRecordAndDelaysNoRegistration(t *testing.T) {
	phases, perPhase, mostAttempts := 2, 10, 1
	if long() {
		phases, mostAttempts = 10, 3
	}
	const reviews = 1_000
	nodes := recordedNodes(t, "in-flood", 4, ordinary)
	living := nodekeep.Node(t, nodekeep.RegisterRecorded(t, "living", ordinary).Name)
	nodekeep.RegisterRecorded(t, "deleted", ordinary)
	nodekeep.DeleteNode(t, "deleted")
	nodekeep.WaitDeletionRecorded(t, "deleted")
	pid := freshWebhook(t)
	f := &flood{client: attackerClient(t, attackers[0], 50), paths: allPaths, connections: 50, rest: 100 * time.Millisecond, make: func(n int) []byte { return forgedReview(n, living, "deleted") }}
	prev := recordsBut(t, "in-flood")

	for attempt := 1; ; attempt++ {
		var quiet, flooded load
		var halves [2][]time.Duration
		for phase := range phases {
			undisturbed := nodes.repeat(t, perPhase, untrue)
			halves[phase*2/phases] = append(halves[phase*2/phases], undisturbed.took...)
			quiet.add(undisturbed)
			done, wait := f.send(t.Context(), webhookAddress(t), phase*reviews, reviews)
			flooded.add(nodes.repeat(t, 1, func() bool { return !done() }))
			wait()
		}
		quiet.whole(t)
		flooded.whole(t)
		t.Log(f)
		steady := max(p99(halves[0]), p99(halves[1])) < 2*min(p99(halves[0]), p99(halves[1]))
		if slow := p99(flooded.took) > 2*p99(quiet.took); !slow || attempt == mostAttempts {
			assert.False(t, long() && slow && steady, "p99 in the flood must be within 2 times of the undisturbed one, and this machine is steady enough to tell")
			break
		}
	}
	assert.GreaterOrEqual(t, f.sent.Load(), int64(phases*reviews))
	assert.Equal(t, prev, recordsBut(t, "in-flood"))
	survived(t, pid)
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
	nodes := recordedNodes(t, "crushed", 4, ordinary)
	pid := freshWebhook(t)
	var callers []*flood
	var dones []func() bool
	for _, address := range attackers {
		f := &flood{client: attackerClient(t, address, 50), paths: allPaths, connections: 50, make: func(n int) []byte { return bodies[n%len(bodies)] }}
		done, wait := f.send(t.Context(), webhookAddress(t), 0, 200)
		defer wait()
		callers, dones = append(callers, f), append(dones, done)
	}
	made := nodes.repeat(t, 10, func() bool { return slices.ContainsFunc(dones, func(done func() bool) bool { return !done() }) })
	busy := int64(0)
	for _, f := range callers {
		t.Log(f)
		busy += f.busy.Load()
	}
	made.whole(t)
	assert.NotZero(t, busy, "900 MiB at once do not fit")
	survived(t, pid)

	// Each of them is decoded when its callers wait for one another, and decoding makes more of it.
	patient := attackerClient(t, attackers[0], 1)
	for n, body := range bodies {
		harness.Eventually(t, func() bool {
			response, err := patient.Post("https://"+webhookAddress(t)+"/restore", "application/json", bytes.NewReader(body))
			if err != nil {
				return false
			}
			defer response.Body.Close()
			return response.StatusCode == http.StatusOK || response.StatusCode == http.StatusBadRequest
		}, harness.Settles, 100*time.Millisecond, "body %d must be answered or refused", n)
		t.Logf("body %d: %d MiB at most so far", n, resident(t, pid, "VmHWM")>>20)
	}
	survived(t, pid)
}

func TestCallersThatTrickleAreLeftAndKeepNoRegistrationWaiting(t *testing.T) {
	const tricklers, leftSoon = 100, 8 * time.Second
	nodes := recordedNodes(t, "trickled", 4, ordinary)
	pid := freshWebhook(t)
	roots, address := authorities(webhookBundle(t)), webhookAddress(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var left, opened, early atomic.Int64
	var all sync.WaitGroup
	for n := range tricklers {
		start := []string{
			"POST /restore HTTP/1.1\r\nHost: webhook\r\nContent-Length: 6291456\r\n\r\n{",
			"POST /deletion HTTP/1.1\r\nHost: webhook\r\nContent-Length: 20000\r\n\r\n{",
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
					early.Add(1)
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
	made := nodes.repeat(t, 20, untrue)
	assert.Eventually(t, func() bool { return left.Load() == tricklers }, harness.Settles, 10*time.Millisecond, "they are left although they go on")
	stop()
	all.Wait()
	assert.EqualValues(t, tricklers, opened.Load())
	assert.NotZero(t, early.Load(), "a machine that stands still may be late for some of them, not for all")
	made.whole(t)
	survived(t, pid)
}

func TestManyIdleConnectionsKeepNoRegistrationWaiting(t *testing.T) {
	const idle = 1_500
	nodes := recordedNodes(t, "crowded", 4, ordinary)
	pid := freshWebhook(t)
	roots, address := authorities(webhookBundle(t)), webhookAddress(t)
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
	made := nodes.repeat(t, 20, untrue)
	all.Wait()
	made.add(nodes.repeat(t, 20, untrue))
	require.EqualValues(t, idle, open.Load())
	assert.Eventually(t, func() bool { return idle-closed.Load() <= 512 }, harness.Settles, 10*time.Millisecond, "no more than 512 are kept")
	t.Logf("%d of %d connections were closed", closed.Load(), idle)
	made.whole(t)
	survived(t, pid)
}

const hostileGrowth = 128 << 20

// review returns an AdmissionReview as any client can write one, around whatever the object is.
func review(operation, name, user, object string) []byte {
	field := map[string]string{"CREATE": "object", "DELETE": "oldObject"}[operation]
	return []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"hostile","operation":"` + operation + `",` +
		`"kind":{"group":"","version":"v1","kind":"Node"},"resource":{"group":"","version":"v1","resource":"nodes"},"name":"` + name + `",` +
		`"userInfo":{"username":"` + user + `","groups":["system:masters","system:nodes"]},"` + field + `":` + object + `}}`)
}

// reviewOf returns a review of a CREATE by a kubelet.
func reviewOf(object string) []byte {
	return review("CREATE", "hostile", "system:node:hostile", object)
}

func hostileReviews() map[string][]byte {
	nested := func(depth int) string { return strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth) }
	var labels, taints, annotations strings.Builder
	for n := range 100_000 {
		comma := map[bool]string{true: ","}[n > 0]
		fmt.Fprintf(&labels, `%s"example.com/%d":"%d"`, comma, n, n)
		fmt.Fprintf(&taints, `%s{"key":"t%d","effect":"NoSchedule"}`, comma, n)
		fmt.Fprintf(&annotations, `%s"a%d":"x"`, comma, n)
	}
	node := func(rest string) string { return `{"metadata":{"name":"hostile"` + rest }
	return map[string][]byte{
		"lists 3,000,000 deep":                bytes.Repeat([]byte("["), 3_000_000),
		"a review 1,000,000 deep":             reviewOf(nested(1_000_000)),
		"an object 9,000 deep":                reviewOf(node(`},"status":` + nested(9_000) + `}`)),
		"an object 200,000 deep":              reviewOf(node(`},"status":` + nested(200_000) + `}`)),
		"10 MiB of spaces":                    bytes.Repeat([]byte(" "), 10<<20),
		"a Node of 10 MiB":                    reviewOf(node(`,"annotations":{"a":"` + strings.Repeat("x", 10<<20) + `"}}}`)),
		"a Node of 6 MiB":                     reviewOf(node(`,"annotations":{"a":"` + strings.Repeat("x", 6<<20) + `"}}}`)),
		"keys twice":                          reviewOf(node(`,"labels":{"a":"1","a":"2"},"labels":{"b":"1"}},"metadata":{"name":"other"}}`)),
		"a request twice":                     []byte(strings.Replace(string(reviewOf(node(`}}`))), `"request":`, `"request":{"uid":"first"},"request":`, 1)),
		"invalid UTF-8":                       reviewOf(node(",\"labels\":{\"a\xff\xfe\":\"\xc3\x28\"}}}")),
		"bytes that are no text":              {0x00, 0xff, 0xfe, 0x80, 0x1f, 0x8b},
		"100,000 labels":                      reviewOf(node(`,"labels":{` + labels.String() + `}}}`)),
		"100,000 taints":                      reviewOf(node(`},"spec":{"taints":[` + taints.String() + `]}}`)),
		"100,000 annotations":                 reviewOf(node(`,"annotations":{` + annotations.String() + `}}}`)),
		"a name of 5 MiB":                     reviewOf(`{"metadata":{"name":"` + strings.Repeat("n", 5<<20) + `"}}`),
		"labels that are a list":              reviewOf(node(`,"labels":[1,2]},"spec":[]}`)),
		"an object that is null":              reviewOf("null"),
		"a number that no number can hold":    reviewOf(node(`,"generation":1e999999999}}`)),
		"a stamp that is 200,000 lists deep":  reviewOf(node(`,"annotations":{"nodekeep.dev/restored":"` + strings.Repeat("[", 200_000) + `"}}}`)),
		"a content that never was a Node's":   reviewOf(`"` + strings.Repeat(`\u0000`, 100_000) + `"`),
		"a Node with 1,000,000 numbers in it": reviewOf(node(`},"status":{"images":[` + strings.Repeat("1,", 1_000_000) + `1]}}`)),
	}
}

func TestHostileReviewsAreAnsweredOrRefusedWithinASecondInBoundedMemoryAndTheWebhookServesOn(t *testing.T) {
	nodes := recordedNodes(t, "after-hostile", 3, ordinary)
	client := webhookClient(t)
	pid := webhookPid()
	index := resident(t, pid, "VmRSS")
	var slowest time.Duration
	answered, refused := 0, 0
	reviews := hostileReviews()
	for name, body := range reviews {
		fastest, decoded := harness.Settles, harness.Settles
		for n := 0; n < 3 || n < 10 && fastest >= time.Second; n++ {
			began := time.Now()
			status, answer := send(t, client, body)
			fastest = min(fastest, time.Since(began))
			began = time.Now()
			_ = json.Unmarshal(body, new(any))
			decoded = min(decoded, time.Since(began))
			if status == http.StatusOK {
				answered++
				assert.LessOrEqual(t, len(body), 7<<20, name)
				var review admissionv1.AdmissionReview
				require.NoError(t, json.Unmarshal(answer, &review), name)
				assert.True(t, review.Response.Allowed, "%s: never denied", name)
				continue
			}
			refused++
			assert.GreaterOrEqual(t, status, 400, name)
			assert.NotEqual(t, http.StatusInternalServerError, status, "%s: no panic", name)
			assert.Equal(t, len(body) > 7<<20, status == http.StatusRequestEntityTooLarge, "%s: %d", name, status)
		}
		assert.Less(t, fastest, max(time.Second, 10*decoded), "%s: on a busy machine, ten times as long as encoding/json takes", name)
		slowest = max(slowest, fastest)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { send(t, client, reviews["100,000 labels"]) })
		all.Go(func() { send(t, client, reviews["a Node of 10 MiB"]) })
	}
	all.Wait()
	grown := resident(t, pid, "VmHWM") - index
	t.Logf("%d reviews answered, %d refused, the slowest kind after %s; memory grew from %d MiB by %d MiB at most",
		answered, refused, round(slowest), index>>20, grown>>20)
	assert.Less(t, grown, hostileGrowth)
	assert.Equal(t, pid, webhookPid())

	nodes.areRestored(t) // it serves on
}

func send(t testing.TB, client *http.Client, body []byte) (status int, answer []byte) {
	t.Helper()
	response, err := client.Post("https://"+webhookAddress(t)+"/restore", "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	assert.NoError(t, err)
	return response.StatusCode, answer
}
