package webhook

import (
	"context"
	"net/http"
	"time"
)

// longestPatience is the greatest timeoutSeconds that the API server accepts (k8s.io/api/admissionregistration/v1).
const longestPatience = 30 * time.Second

// patience limits the context of each request to next by the time for which the API server says it waits. That is the query's `timeout`,
// which it sends with every review (k8s.io/client-go/rest, Request.Timeout; about a webhook's timeoutSeconds). Any other text sets no
// deadline. No request waits longer than an API server can be configured to wait.
func patience(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if waits, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && waits > 0 {
			ctx, cancel := context.WithTimeout(r.Context(), min(waits, longestPatience))
			defer cancel()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}
