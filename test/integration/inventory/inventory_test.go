package inventory

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/test/harness"
)

// inventoryServer is an HTTPS server whose answer the test chooses. It counts requests, and notes who sends them and who connects.
type inventoryServer struct {
	*httptest.Server
	mu       sync.Mutex
	answer   http.HandlerFunc
	requests int
	agents   map[string]int
	owners   map[string]int
	ca       string
}

func serveInventory(t *testing.T) *inventoryServer {
	s := &inventoryServer{agents: map[string]int{}, owners: map[string]int{}}
	addresses, err := harness.FreeAddresses(1) // it listens again where it was
	require.NoError(t, err)
	s.start(t, addresses[0])
	path, inPolicy := mounted(t, "ca.crt")
	s.ca = inPolicy
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	return s
}

// start begins to serve at an address, until the end of the test. Without certificates, the server has that of package httptest.
func (s *inventoryServer) start(t *testing.T, address string, certificates ...tls.Certificate) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	s.Server = &httptest.Server{
		Listener: listener,
		TLS:      &tls.Config{Certificates: certificates},
		Config: &http.Server{
			Handler:   http.HandlerFunc(s.serve),
			ConnState: s.connected,
			ErrorLog:  log.New(io.Discard, "", 0), // a client that refuses the certificate is no error
		},
	}
	s.StartTLS()
	t.Cleanup(s.Close)
}

func (s *inventoryServer) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests++
	s.agents[r.UserAgent()]++
	answer := s.answer
	s.mu.Unlock()
	answer(w, r)
}

// connected notes which process has opened a connection, while that process waits for the server.
func (s *inventoryServer) connected(connection net.Conn, state http.ConnState) {
	if state != http.StateNew {
		return
	}
	owner := ownerOf(connection)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners[owner]++
}

// onlyCaptureCalled checks who has sent requests, and who has opened connections. The owner of a connection that closed at once is not known.
func (s *inventoryServer) onlyCaptureCalled(t *testing.T, name string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(t, []string{"nodekeep-capture"}, slices.Collect(maps.Keys(s.agents)), "only capture calls %s", name)
	owners := maps.Clone(s.owners)
	delete(owners, "")
	assert.Equal(t, []string{"capture"}, slices.Collect(maps.Keys(owners)), "only capture connects to %s", name)
}

func (s *inventoryServer) say(answer http.HandlerFunc) (index int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
	return s.requests
}

// asked waits until the server has answered two more requests: the first one was made and answered.
func (s *inventoryServer) asked(t *testing.T, start int) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.requests >= start+2
	}, harness.Settles, 20*time.Millisecond)
}

func listing(nodes ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"Inventory","nodes":[`+strings.Join(nodes, ",")+`]}`)
	}
}

func listed(name, uuid, rack string) string {
	return fmt.Sprintf(`{"name":%q,"systemUUID":%q,"attributes":{"rack":%q}}`, name, uuid, rack)
}

func code(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	}
}

const rackLabel = "example.com/rack"

func rackIs(t *testing.T, name, want string) {
	t.Helper()
	var got string
	harness.Eventually(t, func() bool {
		got = nodekeep.Node(t, name).Labels[rackLabel]
		return got == want
	}, harness.Settles, 20*time.Millisecond, "rack of %s must become %q, is %v", name, want, &got)
}

// createAs has a kubelet register a Node of a machine.
func createAs(t *testing.T, name, uuid string, dryRun ...string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.NodeInfo.SystemUUID = uuid
	created, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{DryRun: dryRun})
	require.NoError(t, err)
	return created
}

// An honest source must not suffer from others: each is read by itself, with a time and a size of its own. This test runs on a cluster
// without Nodes: it is about new rules that wait for sources, and not for an operator.
func TestAnHonestInventoryWorksWhileOthersAreMuteLyingAndHostile(t *testing.T) {
	honest, mute, lying, hostile := serveInventory(t), serveInventory(t), serveInventory(t), serveInventory(t)
	const name, uuid = "among-hostile", "uuid-among-hostile"
	honest.say(listing(listed(name, uuid, "r1")))
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	mute.say(func(_ http.ResponseWriter, r *http.Request) { // it takes the request, and never answers
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	})
	lying.say(func(w http.ResponseWriter, _ *http.Request) { // it promises more than it sends
		w.Header().Set("Content-Length", "60000000")
		_, _ = io.WriteString(w, `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"Inventory","nodes":[`+listed(name, uuid, "lie")+`]}`)
	})
	block := strings.Repeat(" ", 1<<20)
	hostile.say(func(w http.ResponseWriter, _ *http.Request) { // its document does not end
		for {
			if _, err := io.WriteString(w, block); err != nil {
				return
			}
		}
	})
	policy := "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec:\n  labels:\n    rules:\n"
	sources := "  inventory:\n"
	for source, s := range map[string]*inventoryServer{"honest": honest, "mute": mute, "lying": lying, "hostile": hostile} {
		policy += fmt.Sprintf("    - {name: %[1]s, set: {example.com/%[1]s: '{inventory.%[1]s.rack}'}}\n", source)
		sources += fmt.Sprintf("  - {name: %s, url: %q, ca: %q, interval: 1s, attributes: [rack]}\n", source, s.URL+"/nodes", s.ca)
	}
	defer nodekeep.UsePolicy(t, policy+sources, nodekeep.CaptureArgs...)()
	createAs(t, name, uuid)
	becomes := func(rack string) {
		t.Helper()
		harness.Eventually(t, func() bool { return nodekeep.Node(t, name).Labels["example.com/honest"] == rack }, harness.Settles, 20*time.Millisecond, rack)
	}
	becomes("r1")
	for _, s := range []*inventoryServer{lying, hostile} { // twice each at least
		s.asked(t, s.say(s.answer))
	}
	require.Eventually(t, func() bool { mute.mu.Lock(); defer mute.mu.Unlock(); return mute.requests > 0 }, harness.Settles, 20*time.Millisecond)
	honest.say(listing(listed(name, uuid, "r2")))
	becomes("r2")
	for _, source := range []string{"mute", "lying", "hostile"} {
		assert.NotContains(t, nodekeep.Node(t, name).Labels, "example.com/"+source)
	}
	createAs(t, "among-hostile-2", "uuid-2") // the webhook answers as ever
	defer nodekeep.DeleteNode(t, name)
	defer nodekeep.DeleteNode(t, "among-hostile-2")
	for source, s := range map[string]*inventoryServer{"honest": honest, "mute": mute, "lying": lying, "hostile": hostile} {
		s.onlyCaptureCalled(t, source)
	}
}

func TestAnInventoryMakesLabelsAndNoFailureOfItChangesAny(t *testing.T) {
	s := serveInventory(t)
	const count = 10
	var names, nodes []string
	for i := range count {
		names = append(names, fmt.Sprintf("inventory-%d", i))
		nodes = append(nodes, listed(names[i], fmt.Sprintf("uuid-%d", i), "r7"))
	}
	ahead := []string{listed("inventory-ahead", "uuid-ahead", "r9"), listed("inventory-other", "uuid-listed", "r9")}
	all := slices.Concat(nodes, ahead)
	s.say(listing(all...))
	policy := fmt.Sprintf(`apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  labels:
    rules:
    - {name: rack, set: {example.com/rack: "{inventory.cmdb.rack}"}}
  inventory:
  - {name: cmdb, url: %q, ca: %q, interval: 1s, attributes: [rack], preload: true}
`, s.URL+"/nodes", s.ca)
	nodekeep.SetPolicy(t, policy)
	for i, name := range names {
		createAs(t, name, fmt.Sprintf("uuid-%d", i))
	}
	for _, name := range names {
		rackIs(t, name, "r7")
	}
	unchanged := func(t *testing.T) {
		t.Helper()
		for _, name := range names {
			assert.Equal(t, "r7", nodekeep.Node(t, name).Labels[rackLabel], name)
		}
	}
	edited := func(old, to string) http.HandlerFunc {
		return listing(strings.ReplaceAll(strings.Join(all, ","), old, to))
	}
	for name, answer := range map[string]http.HandlerFunc{
		"redirects":          code(http.StatusFound),
		"401":                code(http.StatusUnauthorized),
		"500":                code(http.StatusInternalServerError),
		"an empty body":      func(http.ResponseWriter, *http.Request) {},
		"no Nodes":           listing(),
		"half of the Nodes":  listing(all[:count/2]...),
		"other racks":        edited("r7", "r8"),
		"values of no label": edited("r7", "r 7!"),
		"other machines":     edited("uuid-", "other-"),
		"a Node twice":       listing(append(slices.Clone(all), all[0])...),
		"numbers":            edited(`"r7"`, "1e9"),
		"deep nesting":       func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("[", 1<<20)) },
		"half of the document": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"Inventory","nodes":[`+all[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.asked(t, s.say(answer))
			unchanged(t)
		})
	}
	nodekeep.WaitEvent(t, names[0], capture.FactsUnknown)
	s.asked(t, s.say(listing(all...)))
	unchanged(t)

	address, current := s.Listener.Addr().String(), s.TLS.Certificates
	s.Close()
	t.Run("the port is closed", func(t *testing.T) {
		failsTwice(t, "cmdb", "connect")
		unchanged(t)
	})
	s.say(listing(strings.ReplaceAll(all[0], "r7", "r8"))) // nobody is to read this
	s.start(t, address, ofAnotherAuthority(t))
	t.Run("another certificate", func(t *testing.T) {
		failsTwice(t, "cmdb", "certificate")
		unchanged(t)
	})
	s.Close()
	s.start(t, address, current...)
	s.asked(t, s.say(listing(all...)))
	unchanged(t)

	t.Run("another client spoils or deletes what capture notes of the source", func(t *testing.T) {
		notes := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace)
		for _, spoilt := range []string{"{", "null", `{"held":7}`, strings.Repeat("[", 1<<18)} {
			body := harness.MustJSON(t, map[string]any{"data": map[string]string{"cmdb": spoilt, inventories.AcceptedKey("cmdb"): spoilt}})
			_, err := notes.Patch(t.Context(), inventories.InventoryName, types.MergePatchType, body, metav1.PatchOptions{})
			require.NoError(t, err)
			s.asked(t, s.say(listing(all[0])))
			unchanged(t)
		}
		require.NoError(t, notes.Delete(t.Context(), inventories.InventoryName, metav1.DeleteOptions{}))
		s.asked(t, s.say(listing(all[0])))
		unchanged(t)
		s.asked(t, s.say(listing(all...)))
		unchanged(t)
	})
	t.Run("one Node in ten may change without an operator", func(t *testing.T) {
		s.say(listing(append([]string{listed(names[0], "uuid-0", "r1")}, all[1:]...)...))
		rackIs(t, names[0], "r1")
		s.say(listing(all...))
		rackIs(t, names[0], "r7")
	})
	t.Run("more wait until an operator accepts them", func(t *testing.T) {
		s.say(listing(ahead...))
		status := inventories.SourceStatus{}
		harness.Eventually(t, func() bool {
			state, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Get(t.Context(), inventories.InventoryName, metav1.GetOptions{})
			require.NoError(t, err)
			status, _ = inventories.SourceStatusOf(state, "cmdb")
			return status.Held != ""
		}, harness.Settles, 20*time.Millisecond)
		unchanged(t)
		assert.Equal(t, count, status.Change.Lost)
		accept := harness.MustJSON(t, map[string]any{"data": map[string]string{inventories.AcceptedKey("cmdb"): status.Held}})
		_, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Patch(t.Context(), inventories.InventoryName, types.MergePatchType, accept, metav1.PatchOptions{})
		require.NoError(t, err)
		for _, name := range names {
			rackIs(t, name, "")
		}
	})
	s.say(listing(all...))
	for _, name := range names {
		rackIs(t, name, "r7")
	}
	t.Run("a Node that never registered gets its label in the CREATE, without a request", func(t *testing.T) {
		harness.Eventually(t, func() bool {
			_, ok := nodekeep.Record(t, "inventory-ahead")
			return ok
		}, harness.Settles, 20*time.Millisecond)
		assert.True(t, nodekeep.MustRecord(t, "inventory-ahead").Preloaded())
		s.say(code(http.StatusInternalServerError))
		harness.Eventually(t, func() bool { // the webhook learns of a record a moment later
			return createAs(t, "inventory-ahead", "uuid-ahead", metav1.DryRunAll).Labels[rackLabel] == "r9"
		}, harness.Settles, 20*time.Millisecond)
		assert.Equal(t, "r9", createAs(t, "inventory-ahead", "uuid-ahead").Labels[rackLabel])
		assert.NotContains(t, createAs(t, "inventory-other", "uuid-of-another").Labels, rackLabel, "it is another machine")
	})
	t.Run("a restart without the inventory changes nothing", func(t *testing.T) {
		require.NoError(t, nodekeep.StopCapture())
		require.NoError(t, nodekeep.StartCapture(t.Context()))
		s.asked(t, s.say(code(http.StatusInternalServerError)))
		unchanged(t)
		rackIs(t, "inventory-ahead", "r9")
	})
	s.onlyCaptureCalled(t, "the inventory") // the webhook never does
}

// ofAnotherAuthority returns a certificate for the address of the server that capture has no reason to trust.
func ofAnotherAuthority(t *testing.T) tls.Certificate {
	t.Helper()
	authority, err := harness.NewAuthority()
	require.NoError(t, err)
	certificate, key, err := authority.Server([]string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}, time.Now().Add(time.Hour))
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	return pair
}
