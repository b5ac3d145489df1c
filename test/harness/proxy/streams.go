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

// Expire answers watches with an error event, as the API server does if the resourceVersion is compacted during the watch.
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
		mute(w, r, time.After(duration))
	}
}

// MuteUntil is Mute until a channel is closed.
func MuteUntil(match Match, done <-chan struct{}) Fault {
	return func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		if !match(r) {
			apiServer.ServeHTTP(w, r)
			return
		}
		mute(w, r, done)
	}
}

// mute accepts a watch and sends nothing until done.
func mute[T any](w http.ResponseWriter, r *http.Request, done <-chan T) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	select {
	case <-r.Context().Done():
	case <-done:
	}
}

// Stall passes the answers on, and from the moment at which stalled is true nothing of them any more. They do not end.
func Stall(match Match, stalled *atomic.Bool) Fault {
	return func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		if match(r) {
			w = &writer{w, func(data []byte, write func([]byte) (int, error)) (int, error) {
				if stalled.Load() {
					return len(data), nil
				}
				return write(data)
			}}
		}
		apiServer.ServeHTTP(w, r)
	}
}

// Report calls a function with each request that matches, before it continues.
func Report(match Match, seen func(r *http.Request)) Fault {
	return func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		if match(r) {
			seen(r)
		}
		apiServer.ServeHTTP(w, r)
	}
}

// Says calls a function with each answer to the requests that holds a text, in one piece.
func Says(match Match, text string, seen func(r *http.Request)) Fault {
	return func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		if match(r) {
			w = &writer{w, func(data []byte, write func([]byte) (int, error)) (int, error) {
				if bytes.Contains(data, []byte(text)) {
					seen(r)
				}
				return write(data)
			}}
		}
		apiServer.ServeHTTP(w, r)
	}
}

// writer has each part of an answer pass a function.
type writer struct {
	http.ResponseWriter
	pass func(data []byte, write func([]byte) (int, error)) (int, error)
}

func (w *writer) Write(data []byte) (int, error) { return w.pass(data, w.ResponseWriter.Write) }

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
