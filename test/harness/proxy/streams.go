package proxy

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// All puts faults one behind the other: each has the next one for its API server.
func All(faults ...Fault) Fault {
	return func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		for n := len(faults) - 1; n >= 0; n-- {
			fault, behind := faults[n], apiServer
			apiServer = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fault(w, r, behind) })
		}
		apiServer.ServeHTTP(w, r)
	}
}

// Expire answers watches as the API server does where the resourceVersion is compacted away while the watch is on: with
// an event that says so.
func Expire(match Match) Fault {
	return func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		if !match(r) {
			apiServer.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "ERROR", "object": metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "a fault of the test",
		}})
	}
}

// Mute accepts the watches and sends nothing on them for the time, or until their caller gives up. Then they end as watches do.
func Mute(match Match, duration time.Duration) Fault {
	return func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		if !match(r) {
			apiServer.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(duration):
		}
	}
}

// Report calls a function with each request that matches, before it goes on.
func Report(match Match, seen func(r *http.Request)) Fault {
	return func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		if match(r) {
			seen(r)
		}
		apiServer.ServeHTTP(w, r)
	}
}

// Count adds the bytes of the answers to the requests to the total, headers left out.
func Count(match Match, total *atomic.Int64) Fault {
	return func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		if match(r) {
			w = &countingWriter{w, total}
		}
		apiServer.ServeHTTP(w, r)
	}
}

type countingWriter struct {
	http.ResponseWriter
	total *atomic.Int64
}

func (w *countingWriter) Write(data []byte) (int, error) {
	w.total.Add(int64(len(data)))
	return w.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Says calls a function with each answer to the requests that holds a text, in one piece.
func Says(match Match, text string, seen func(r *http.Request)) Fault {
	return func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		if match(r) {
			w = &listening{ResponseWriter: w, text: []byte(text), seen: func() { seen(r) }}
		}
		apiServer.ServeHTTP(w, r)
	}
}

type listening struct {
	http.ResponseWriter
	text []byte
	seen func()
}

func (l *listening) Write(data []byte) (int, error) {
	if bytes.Contains(data, l.text) {
		l.seen()
	}
	return l.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (l *listening) Unwrap() http.ResponseWriter { return l.ResponseWriter }
