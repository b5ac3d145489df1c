package proxy

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/fields"
)

// Reads returns the requests that list or watch a resource ("nodes", "configmaps").
func Reads(resource string) Match {
	return func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/"+resource)
	}
}

// ofOne reports whether a list or watch is of one object only, by its name.
func ofOne(r *http.Request) bool {
	selector, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	if err != nil {
		return false
	}
	_, named := selector.RequiresExactMatch("metadata.name")
	return named
}

// ReadsAll returns the requests that read a resource from the start: lists, and watches that stand in for a list. Those of one object are none.
func ReadsAll(resource string) Match {
	return func(r *http.Request) bool {
		query := r.URL.Query()
		return Reads(resource)(r) && !ofOne(r) && (query.Get("watch") == "" || query.Get("sendInitialEvents") != "")
	}
}

// Writes returns the requests that do anything else than read.
func Writes(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// Decides returns the writes that decide something, that is all but those of Events.
func Decides(r *http.Request) bool { return Writes(r) && !strings.Contains(r.URL.Path, "/events") }

// RecordRemovals returns the requests that delete a ConfigMap.
func RecordRemovals(r *http.Request) bool {
	return r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/configmaps/")
}

// NodeLooks returns the requests that read one Node.
func NodeLooks(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/api/v1/nodes/")
}

// AnyOf picks what one of the matches picks.
func AnyOf(matches ...Match) Match {
	return func(r *http.Request) bool {
		for _, match := range matches {
			if match(r) {
				return true
			}
		}
		return false
	}
}

// Times picks the first so many of the requests that match.
func Times(match Match, number int64) Match {
	var count atomic.Int64
	return func(r *http.Request) bool { return match(r) && count.Add(1) <= number }
}

// About picks those of the matching requests that have the text in their path or body: a Node's name, say.
func About(text string, match Match) Match {
	return func(r *http.Request) bool {
		if !match(r) {
			return false
		}
		body, _ := io.ReadAll(r.Body) // the whole of it is in memory
		r.Body = io.NopCloser(bytes.NewReader(body))
		return strings.Contains(r.URL.Path, text) || bytes.Contains(body, []byte(text))
	}
}
