package attack

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// inventories is how many sources the policy has at most. The attacker serves them all.
const inventories = 8

// liar is the server of all inventories. Each of its answers is another one.
type liar struct {
	*httptest.Server

	mu               sync.Mutex
	d                dice
	answers, entries int
}

// lie begins to serve, until the end of the test. ca is the file of its authority, as a policy names it.
func lie(t *testing.T, mounts string, seed uint64) (l *liar, ca string) {
	t.Helper()
	l = &liar{d: dice{rand.New(rand.NewPCG(seed, callsAtOnce))}}
	l.Server = httptest.NewUnstartedServer(http.HandlerFunc(l.serve))
	l.Config.ErrorLog = log.New(io.Discard, "", 0) // an attacker sends what is no HTTP
	l.StartTLS()
	t.Cleanup(l.Close)
	require.NoError(t, os.WriteFile(filepath.Join(mounts, "ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.Certificate().Raw}), 0o600))
	return l, "/var/run/nodekeep/ca.crt"
}

// kindsOfLies returns the answers by their titles.
func kindsOfLies() []string {
	return []string{
		"another value for one Node", "other values for all Nodes", "attributes that are called like labels which no rule makes of it", "values that no label can have", "Nodes twice, and machines that cannot be",
		"a document that breaks off", "a document of another kind", "a document of 8 MiB", "a document that is nested 10,000 times", "a redirection to the API server", "an error", "another length than it says",
	}
}

func (l *liar) serve(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	kind := l.answers % len(kindsOfLies())
	entries := l.nodes(kind)
	l.answers, l.entries = l.answers+1, l.entries+len(entries)
	l.mu.Unlock()
	document, err := json.Marshal(object{"apiVersion": "nodekeep.dev/v1alpha1", "kind": "Inventory", "nodes": entries})
	if err != nil {
		panic(err) // these can all be encoded
	}
	switch kind {
	case 5:
		document = document[:len(document)/2]
	case 6:
		document = []byte(`{"apiVersion":"v1","kind":"Secret"}`)
	case 7:
		document = append(document, strings.Repeat(" ", 8<<20)...)
	case 8:
		document = []byte(strings.Repeat(`{"nodes":[`, 10_000))
	case 9:
		w.Header().Set("Location", nodekeep.Cluster.URL()+"/api/v1/nodes")
		w.WriteHeader(http.StatusFound)
	case 10:
		w.WriteHeader(http.StatusInternalServerError)
	case 11:
		w.Header().Set("Content-Length", "60000000")
	}
	_, _ = w.Write(document)
}

// nodes returns the entries of an answer of a kind.
func (l *liar) nodes(kind int) (all []object) {
	d := l.d
	entry := func(name string) object {
		return object{"name": name, "systemUUID": "system-" + name, "attributes": object{"rack": pick(d, "r1", "r2", d.text())}}
	}
	if kind == 0 {
		return []object{entry(pick(d, harness.Names("open", open)...))}
	}
	names := slices.Concat(harness.Names("open", open), harness.Names("waits", waits), harness.Names("deleted", deleted), harness.Names("returns", returns), harness.Names("never", d.IntN(200)))
	for _, name := range names {
		item := entry(name)
		switch kind {
		case 2:
			item["attributes"] = object{harness.Worker: "", "node-restriction.kubernetes.io/a": "b", "team": "b", "rack": "r3"}
		case 3:
			item["attributes"] = object{"rack": pick(d, "-", "a b", "\x1b[2J", "{value}", "=1")}
		case 4:
			item["name"], item["systemUUID"] = d.foreign(), d.machine()
		}
		all = append(all, item)
	}
	return all
}

// sources returns the section inventory of the policy, and the rules that use it.
func (l *liar) sources(ca string) (sources, rules []object) {
	for n := range inventories {
		name := fmt.Sprint("liar", n)
		sources = append(sources, object{"name": name, "url": fmt.Sprint(l.URL, "/", n), "ca": ca, "interval": "1s", "attributes": []string{"rack"}})
		rules = append(rules, object{"name": fmt.Sprint("rack-", n), "set": object{fmt.Sprint("example.com/rack-", n): "{inventory." + name + ".rack}"}})
	}
	return sources, rules
}

// counts returns how many answers it has given, with how many entries.
func (l *liar) counts() (answers, entries int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers, l.entries
}
