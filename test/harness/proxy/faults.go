package proxy

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Match picks requests.
type Match func(r *http.Request) bool

// RecordWrites returns the requests that create or change ConfigMaps.
func RecordWrites(r *http.Request) bool {
	return strings.Contains(r.URL.Path, "/configmaps") && (r.Method == http.MethodPost || r.Method == http.MethodPatch)
}

// NodeWrites returns the requests that change Nodes.
func NodeWrites(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/v1/nodes/") && r.Method == http.MethodPatch
}

// Watches returns the requests that watch a resource ("nodes", "configmaps"), but for those that watch one object of it.
func Watches(resource string) Match {
	return func(r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/"+resource) && r.URL.Query().Get("watch") != "" && !ofOne(r)
	}
}

// WatchesOne returns the requests that watch one object of a resource.
func WatchesOne(resource string) Match {
	return func(r *http.Request) bool { return Reads(resource)(r) && ofOne(r) && r.URL.Query().Get("watch") != "" }
}

// Answer refuses a share of the requests (1: all, 2: every second, ...). It answers a status in the words of the API server.
func Answer(match Match, status int, reason metav1.StatusReason, share int64) Fault {
	var count atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		if !match(r) || count.Add(1)%share != 0 {
			apiServer.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		if status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Code: int32(status), Reason: reason, Message: "a fault of the test",
		})
	}
}

// Hang lets the requests wait for the duration, or until their caller gives up. Then it ends them without an answer.
func Hang(match Match, duration time.Duration) Fault {
	return func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		if !match(r) {
			apiServer.ServeHTTP(w, r)
			return
		}
		select {
		case <-r.Context().Done():
		case <-time.After(duration):
		}
		panic(http.ErrAbortHandler)
	}
}

// Cut ends the answers to the requests after so many bytes.
func Cut(match Match, bytes int) Fault {
	return func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		if match(r) {
			left, answer := bytes, w
			w = &writer{answer, func(data []byte, write func([]byte) (int, error)) (int, error) {
				if left -= len(data); left < 0 {
					_, _ = write(data[:len(data)+left])
					_ = http.NewResponseController(answer).Flush()
					panic(http.ErrAbortHandler)
				}
				return write(data)
			}}
		}
		apiServer.ServeHTTP(w, r)
	}
}

// Moment is when a request is held, see [Hold].
type Moment int

// The moments.
const (
	BeforeRequest Moment = iota // the API server has not seen it
	AfterResponse               // the API server has carried it out, and the caller does not know
)

// Hold stops the request with this number among those that match (from 1) at a moment, and calls reached. The request waits until its caller hangs
// up, at most a minute.
func Hold(match Match, number int64, moment Moment, reached func(r *http.Request)) Fault {
	var count atomic.Int64
	var first sync.Once
	return func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		if !match(r) || count.Add(1) != number {
			apiServer.ServeHTTP(w, r)
			return
		}
		if moment == AfterResponse {
			apiServer.ServeHTTP(discard{http.Header{}}, r)
		}
		first.Do(func() { reached(r) })
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
		panic(http.ErrAbortHandler)
	}
}

// discard takes an answer that nobody gets.
type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) WriteHeader(int)             {}
func (discard) Write(b []byte) (int, error) { return len(b), nil }
