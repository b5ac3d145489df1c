package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/inventory"
	"nodekeep.dev/nodekeep/test/harness"
)

const good = `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"Inventory","nodes":[` +
	`{"name":"a","systemUUID":"4C4C4544-0001","attributes":{"rack":"r7","owner":"not kept"}},{"name":"b"}]}`

// document returns an inventory with these nodes.
func document(nodes string) string {
	return `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"Inventory","nodes":[` + nodes + `]}`
}

// server is an HTTPS server on loopback whose answer the test chooses.
type server struct {
	*httptest.Server
	answer atomic.Value // http.HandlerFunc
	ca     string       // file
}

func serve(t *testing.T, answer http.HandlerFunc) *server {
	s := &server{}
	s.answer.Store(answer)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.answer.Load().(http.HandlerFunc)(w, r) }))
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	s.ca = file(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return s
}

func file(t *testing.T, content []byte) string {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

func (s *server) source() inventory.Source {
	return inventory.Source{Name: "cmdb", URL: s.URL + "/nodes", CA: s.ca, Attributes: []string{"model", "rack"}, Interval: time.Minute, StaleAfter: time.Hour, Kept: inventory.MaxKept}
}

func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, good)
	}
}

// raw answers with these bytes and closes the connection.
func raw(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = io.WriteString(connection, answer)
			_ = connection.Close()
		}
	}
}

// endless repeats a text until the client has enough of it.
func endless(begin, repeated string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, begin)
		chunk := strings.Repeat(repeated, 64<<10/len(repeated)+1)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	}
}

// numbered lists Nodes until the client has enough of it.
func numbered(w http.ResponseWriter, r *http.Request) {
	listing(w, r, math.MaxInt, math.MaxInt, func(i int) string {
		return fmt.Sprintf(`{"name":"n%d","systemUUID":"%036d","attributes":{"rack":"%062d"}}`, i, i, i)
	})
}

// longNamed lists as many Nodes as are allowed, in fewer bytes than are allowed, and with so long names that too much would be kept.
func longNamed(w http.ResponseWriter, r *http.Request) {
	long := strings.Repeat("n", 120)
	listing(w, r, inventory.MaxNodes, MaxBytes, func(i int) string { return fmt.Sprintf(`{"name":"%s-%06d","systemUUID":"%036x"}`, long, i, i) })
}

// listing lists that many Nodes, or fewer: until the client has enough of it, or the document has that many bytes.
func listing(w http.ResponseWriter, r *http.Request, nodes, size int, node func(i int) string) {
	begin, end, _ := strings.Cut(document("|"), "|")
	_, _ = io.WriteString(w, begin)
	size -= len(begin) + len(end)
	var chunk strings.Builder
	for i := 0; i < nodes && r.Context().Err() == nil; i++ {
		next := node(i)
		if i > 0 {
			next = "," + next
		}
		if size -= len(next); size < 0 {
			break
		}
		chunk.WriteString(next)
		if chunk.Len() > 64<<10 {
			if _, err := io.WriteString(w, chunk.String()); err != nil {
				return
			}
			chunk.Reset()
		}
	}
	_, _ = io.WriteString(w, chunk.String()+end)
}

// zipped answers with a body in gzip, again and again: gzip reads such a row as one text.
func zipped(body []byte, times int) http.HandlerFunc {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, _ = zip.Write(body)
	_ = zip.Close()
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		for range times {
			_, _ = w.Write(packed.Bytes())
		}
	}
}

// mostMemory is how much the heap may grow at most while an answer is read, garbage included: with the usual GOGC that is twice what is kept of it,
// and some room, since the test's server runs in this process too.
const mostMemory = 2*inventory.MaxKept + 48<<20

// grown runs fn, and returns by how much the memory grew that was in use at any time.
func grown(fn func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	runtime.GC()
	var prev runtime.MemStats
	runtime.ReadMemStats(&prev)
	var maximum atomic.Uint64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			maximum.Store(max(maximum.Load(), now.HeapAlloc))
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	fn()
	close(done)
	<-ended
	return maximum.Load() - min(maximum.Load(), prev.HeapAlloc)
}

func TestAHostileServerGivesAnErrorWithAReasonAndTakesLittleMemory(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   Reason
	}{
		"redirects":                             {status(http.StatusFound), Redirect},
		"wants a token":                         {status(http.StatusUnauthorized), Status},
		"is broken":                             {status(http.StatusInternalServerError), Status},
		"answers a part":                        {status(http.StatusPartialContent), Status},
		"says not modified, with nothing known": {status(http.StatusNotModified), NotModified},
		"is empty":                              {text(""), Invalid},
		"is a page in HTML":                     {text("<html>"), Invalid},
		"truncates":                             {text(good[:len(good)-20]), Invalid},
		"says that it has more than it sends":   {raw("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + good), Truncated},
		"says that it has less than it sends":   {raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(good)-5, good)), Invalid},
		"says that it has a petabyte":           {raw("HTTP/1.1 200 OK\r\nContent-Length: 1125899906842624\r\n\r\n" + good), TooLarge},
		"has two lengths":                       {raw("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n" + good), Connect},
		"breaks off between chunks":             {raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"api\r\n"), Truncated},
		"speaks no HTTP":                        {raw("hello"), Connect},
		"has endless headers":                   {raw("HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 100_000)), Connect},
		"closes the connection":                 {raw(""), Connect},
		"compresses":                            {zipped([]byte(good), 1), Encoding},
		"sends a bomb of gzip":                  {zipped(make([]byte, 1<<20), 1<<10), Encoding},
		"never ends, with spaces":               {endless(`{"apiVersion":`, "    "), Invalid},
		"never ends, with one string":           {endless(`{"apiVersion":"`, "aaaa"), Invalid},
		"never ends, with one number":           {endless(`{"apiVersion":`, "1234"), Invalid},
		"never ends, with one key":              {endless(`{"`, "aaaa"), Invalid},
		"nests without end":                     {endless(strings.TrimSuffix(document(""), "]}"), "[[[["), Invalid},
		"nests objects without end":             {endless("", `{"nodes":`), Invalid},
		"never ends, with Nodes":                {numbered, Invalid},
		"lists more than is kept of a source":   {longNamed, TooLarge},
		"never ends, with one Node":             {endless(strings.TrimSuffix(document(""), "]}"), `{"name":"a"},`), Invalid},
		"never ends, with attributes":           {endless(strings.TrimSuffix(document(`{"name":"a","attributes":{`), "]}"), `"rack":"a",`), TooLarge},
		"never ends, with entries of no Node":   {endless(strings.TrimSuffix(document(""), "]}"), `7,`), Invalid},
		"never ends, with unlisted attributes":  {endless(strings.TrimSuffix(document(`{"name":"a","attributes":{`), "]}"), `"a":[{}],`), TooLarge},
		"nests what is ignored":                 {endless(strings.TrimSuffix(document(`{"name":"a","attributes":{"owner":`), "]}"), "["), Invalid},
		"nests an attribute":                    {endless(strings.TrimSuffix(document(`{"name":"a","attributes":{"rack":`), "]}"), `{"a":`), Invalid},
		"has an unknown field of the document":  {text(strings.TrimSuffix(good, "}") + `,"items":[]}`), Invalid},
		"sends more after the inventory":        {text(good + "{}"), Invalid},
		"sends a bracket after the inventory":   {text(good + "]"), Invalid},
		"never ends, with spaces after it":      {endless(good, "    "), Invalid},
		"has nodes twice":                       {text(strings.TrimSuffix(good, "}") + `,"nodes":[]}`), Invalid},
		"has an object for nodes":               {text(`{"apiVersion":"nodekeep.dev/v1alpha1","kind":"Inventory","nodes":{}}`), Invalid},
		"is of another version":                 {text(strings.Replace(good, "v1alpha1", "v2", 1)), Invalid},
		"is of another kind":                    {text(strings.Replace(good, `"Inventory"`, `"Policy"`, 1)), Invalid},
		"has no kind":                           {text(`{"apiVersion":"nodekeep.dev/v1alpha1","nodes":[]}`), Invalid},
		"has no nodes":                          {text(`{"apiVersion":"nodekeep.dev/v1alpha1","kind":"Inventory"}`), Invalid},
		"is a list":                             {text(`[]`), Invalid},
		"is null":                               {text(`null`), Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, c.answer)
			f := New(s.source(), nil, "")
			f.timeout = time.Hour // how busy the machine is decides nothing here
			var result Result
			var err error
			if extra := grown(func() { result, err = f.Get(t.Context(), "") }); extra > mostMemory {
				t.Errorf("%d MiB of memory", extra>>20)
			}
			require.Error(t, err)
			assert.Equal(t, c.want, ReasonOf(err), err.Error())
			assert.Equal(t, Result{}, result)
			assert.Less(t, len(err.Error()), 400)
		})
	}
}

// The largest documents that are allowed: as many Nodes as are allowed, and as many bytes with as many attributes.
func TestTheLargestAnswersTakeNoMoreMemoryThanTheBounds(t *testing.T) {
	var names []string
	for i := range inventory.MaxAttributes {
		names = append(names, fmt.Sprintf("%02d%s", i, strings.Repeat("a", inventory.MaxText-2)))
	}
	for name, c := range map[string]struct {
		attributes []string
		nodes      int
		answer     http.HandlerFunc
	}{
		"200,000 Nodes": {[]string{"rack"}, inventory.MaxNodes, func(w http.ResponseWriter, r *http.Request) {
			listing(w, r, inventory.MaxNodes, MaxBytes, func(i int) string {
				return fmt.Sprintf(`{"name":"worker-%06d","systemUUID":"%036x","attributes":{"rack":"r%06d"}}`, i, i, i)
			})
		}},
		"64 MiB": {names, 10_000, func(w http.ResponseWriter, r *http.Request) {
			listing(w, r, math.MaxInt, MaxBytes, func(i int) string {
				var attributes []string
				for _, name := range names {
					attributes = append(attributes, fmt.Sprintf("%q:\"%063d\"", name, i))
				}
				return fmt.Sprintf(`{"name":"worker-%06d","systemUUID":"%036x","attributes":{%s}}`, i, i, strings.Join(attributes, ","))
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, c.answer)
			source := s.source()
			source.Attributes = c.attributes
			f := New(source, nil, "")
			f.timeout = time.Hour // how busy the machine is decides nothing here
			var result Result
			var err error
			runtime.GC()
			var prev, next runtime.MemStats
			runtime.ReadMemStats(&prev)
			maximum := grown(func() { result, err = f.Get(t.Context(), "") })
			require.NoError(t, err)
			runtime.GC()
			runtime.ReadMemStats(&next)
			kept := next.HeapAlloc - min(next.HeapAlloc, prev.HeapAlloc)
			assert.GreaterOrEqual(t, result.Snapshot.Len(), c.nodes)
			assert.LessOrEqual(t, kept, uint64(inventory.MaxKept), "what is kept")
			assert.LessOrEqual(t, maximum, uint64(mostMemory), "at any time")
			t.Logf("%d Nodes: %d MiB kept, %d MiB at most", result.Snapshot.Len(), kept>>20, maximum>>20)
			runtime.KeepAlive(result)
		})
	}
}

func attributes(count int) string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf(`"a%d":""`, i))
	}
	return strings.Join(all, ",")
}

func TestAGoodAnswerIsRead(t *testing.T) {
	for name, body := range map[string]string{
		"as it is":                          good,
		"with spaces":                       "\n " + strings.ReplaceAll(good, ",", " ,\n ") + " \n",
		"in another order":                  `{"nodes":[{"name":"b"},{"attributes":{"rack":"r7"},"systemUUID":"4c4c4544-0001","name":"a"}],"kind":"Inventory","apiVersion":"nodekeep.dev/v1alpha1"}`,
		"with many other attributes":        strings.Replace(good, `"owner":"not kept"`, attributes(1000), 1),
		"with other attributes of any type": strings.Replace(good, `"owner":"not kept"`, `"a":7,"b":null,"c":[1,{"d":{}}],"a":true,"":1e999999999,"`+strings.Repeat("r", 64)+`":"\ud800\n"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			result, err := New(serve(t, text(body)).source(), nil, "").Get(t.Context(), "")
			require.NoError(t, err)
			a, ok := result.Snapshot.Attributes("a", "4C4C4544-0001")
			assert.True(t, ok)
			assert.Equal(t, map[string]string{"rack": "r7", "model": ""}, a)
			assert.Equal(t, 2, result.Snapshot.Len())
		})
	}
}

func TestOneReadIsOneRequestWithoutACompressedAnswer(t *testing.T) {
	requests := atomic.Int32{}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		assert.Equal(t, "identity", r.Header.Get("Accept-Encoding"))
		assert.Equal(t, http.MethodGet, r.Method)
		http.Redirect(w, r, "/again", http.StatusFound)
	})
	_, err := New(s.source(), nil, "").Get(t.Context(), "")
	require.Error(t, err)
	assert.EqualValues(t, 1, requests.Load())
}

func TestAnETagSavesABodyAndHidesNone(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, good)
	})
	f := New(s.source(), nil, "")
	first, err := f.Get(t.Context(), "")
	require.NoError(t, err)
	assert.Equal(t, `"1"`, first.Version)
	second, err := f.Get(t.Context(), first.Version)
	require.NoError(t, err)
	assert.Equal(t, Result{Unchanged: true, Version: `"1"`}, second)
	tagged := func(etag, body string) {
		s.answer.Store(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", etag)
			_, _ = io.WriteString(w, body)
		}))
	}
	tagged(`"1"`, document(`{"name":"c"}`)) // other content under the same ETag
	third, err := f.Get(t.Context(), first.Version)
	require.NoError(t, err)
	assert.NotEqual(t, first.Snapshot.Hash(), third.Snapshot.Hash())
	tagged(strings.Repeat("e", 2000), good)
	fourth, err := f.Get(t.Context(), "")
	require.NoError(t, err)
	assert.Empty(t, fourth.Version, "it is too long to be sent back")
}

func TestAServerThatIsSlowOrDownIsGivenUp(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"before it answers": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"in its body": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, good[:30])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"byte by byte": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, " ")
				w.(http.Flusher).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(serve(t, answer).source(), nil, "")
			f.timeout = 300 * time.Millisecond
			_, err := f.Get(t.Context(), "")
			assert.Equal(t, Timeout, ReasonOf(err), "%v", err)
		})
	}
	t.Run("down", func(t *testing.T) {
		s := serve(t, text(good))
		s.Close()
		_, err := New(s.source(), nil, "").Get(t.Context(), "")
		assert.Equal(t, Connect, ReasonOf(err), "%v", err)
		assert.NotContains(t, err.Error(), "/nodes", "errors do not have the URL")
	})
	t.Run("it accepts and says nothing", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = listener.Close() })
		f := New(inventory.Source{Name: "cmdb", URL: "https://" + listener.Addr().String()}, nil, "")
		f.timeout = 300 * time.Millisecond
		_, err = f.Get(t.Context(), "")
		assert.Equal(t, Timeout, ReasonOf(err), "%v", err)
	})
}

func TestTheCertificateIsCheckedAtEachReadAndFilesAreReadAnew(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer second" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, good)
	})
	source := s.source()
	source.TokenFile = file(t, []byte("first\n"))
	f := New(source, nil, "")
	_, err := f.Get(t.Context(), "")
	require.Equal(t, Status, ReasonOf(err))
	require.NoError(t, os.WriteFile(source.TokenFile, []byte("second\n"), 0o600))
	_, err = f.Get(t.Context(), "")
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(source.TokenFile, []byte("bad\r\nX-Header: forged"), 0o600))
	_, err = f.Get(t.Context(), "")
	require.NoError(t, err, "the last good token is used")
	_, err = New(source, nil, "").Get(t.Context(), "")
	assert.Equal(t, Credentials, ReasonOf(err))

	require.NoError(t, os.WriteFile(source.TokenFile, []byte("second"), 0o600))
	o, err := harness.NewAuthority()
	require.NoError(t, err)
	certificate, key, err := o.Server([]string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}, time.Now().Add(time.Hour))
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	address := s.Listener.Addr().String()
	s.Close()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	reread := &httptest.Server{Listener: listener, Config: &http.Server{Handler: text(good)}, TLS: &tls.Config{Certificates: []tls.Certificate{pair}}}
	reread.StartTLS()
	t.Cleanup(reread.Close)
	_, err = f.Get(t.Context(), "")
	assert.Equal(t, Certificate, ReasonOf(err), "%v", err)
	require.NoError(t, os.WriteFile(source.CA, o.PEM, 0o600))
	_, err = f.Get(t.Context(), "")
	require.NoError(t, err, "the file of the authorities is followed")
	require.NoError(t, os.WriteFile(source.CA, []byte("no certificate"), 0o600))
	_, err = New(source, nil, "").Get(t.Context(), "")
	assert.Equal(t, Credentials, ReasonOf(err))
}

func TestAServerWithoutTLSOrATrustedNameIsRefused(t *testing.T) {
	plain := httptest.NewServer(text(good))
	t.Cleanup(plain.Close)
	_, err := New(inventory.Source{Name: "cmdb", URL: strings.Replace(plain.URL, "http:", "https:", 1)}, nil, "").Get(t.Context(), "")
	assert.Equal(t, Connect, ReasonOf(err), "%v", err)
	s := serve(t, text(good))
	source := s.source()
	source.CA = ""
	_, err = New(source, nil, "").Get(t.Context(), "")
	assert.Equal(t, Certificate, ReasonOf(err), "%v", err)
}

func TestAFileIsReadAndNothingElse(t *testing.T) {
	get := func(path string) (Result, error) {
		return New(inventory.Source{Name: "file", File: path, Attributes: []string{"rack"}, Kept: inventory.MaxKept}, nil, "").Get(t.Context(), "")
	}
	result, err := get(file(t, []byte(good)))
	require.NoError(t, err)
	assert.Equal(t, 2, result.Snapshot.Len())
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for path, want := range map[string]Reason{
		"/does/not/exist": Unreadable, t.TempDir(): Unreadable, pipe: Unreadable, "/dev/zero": Unreadable, file(t, []byte("{}")): Invalid, file(t, nil): Invalid,
	} {
		_, err := get(path)
		assert.Equal(t, want, ReasonOf(err), "%s: %v", path, err)
	}
}

func TestAConfigMapIsReadWhenItsVersionChanges(t *testing.T) {
	content, version := good, "1"
	f := New(inventory.Source{Name: "map", ConfigMap: "nodes", Attributes: []string{"rack"}, Kept: inventory.MaxKept}, func(_ context.Context, name string) ([]byte, string, error) {
		if name != "nodes" {
			return nil, "", os.ErrNotExist
		}
		return []byte(content), version, nil
	}, "")
	first, err := f.Get(t.Context(), "")
	require.NoError(t, err)
	second, err := f.Get(t.Context(), first.Version)
	require.NoError(t, err)
	assert.True(t, second.Unchanged)
	content, version = "{}", "2"
	_, err = f.Get(t.Context(), first.Version)
	assert.Equal(t, Invalid, ReasonOf(err))
	f.source.ConfigMap = "others"
	_, err = f.Get(t.Context(), "")
	assert.Equal(t, Unreadable, ReasonOf(err))
}

func FuzzReadNeverPanics(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(document(`{"name":"a","attributes":{"rack":"\ud800"}}`)))
	f.Fuzz(func(t *testing.T, body []byte) {
		next, err := read(bytes.NewReader(body), inventory.Source{Name: "cmdb", Attributes: []string{"rack"}, Kept: inventory.MaxKept})
		if err != nil {
			assert.Equal(t, inventory.Snapshot{}, next)
			return
		}
		for _, name := range next.Names() {
			facts, ok := next.Attributes(name, "")
			if !ok { // the whole entry cannot be used
				assert.NotEmpty(t, next.Problem(name, ""))
				assert.Empty(t, facts)
			}
			assert.LessOrEqual(t, len(facts["rack"]), inventory.MaxText)
		}
	})
}
