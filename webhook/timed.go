package webhook

import (
	"net/http"
	"time"
)

// Review names what an API server has reviewed, for the metrics.
type Review string

// The reviews that it is asked for.
const (
	RestoreReview   Review = "restore"
	ProtectedReview Review = "restore_protected"
	DeletionReview  Review = "deletion"
	PolicyReview    Review = "policy"
)

// timed measures each request to next as a whole: reading and decoding the body, the review, and writing the answer. The API server also
// waits for TLS and for the network to the webhook and back.
func (m *Metrics) timed(review Review, next http.Handler) http.Handler {
	took := m.requests.WithLabelValues(string(review))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		defer func() { took.Observe(time.Since(started).Seconds()) }()
		next.ServeHTTP(w, r)
	})
}
