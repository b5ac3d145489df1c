package serve

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// held is a handler whose requests run until they are let go, and that knows how many run.
type held struct {
	running, highest atomic.Int64
	finish           chan struct{}
}

func (h *held) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h.highest.Store(max(h.highest.Load(), h.running.Add(1)))
	<-h.finish
	h.running.Add(-1)
	w.WriteHeader(http.StatusOK)
}

func call(ctx context.Context, handler http.Handler, address string) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
	request.RemoteAddr = address + ":1"
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer
}

func TestACrowdOfOneAddressKeepsNoOtherAddressWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &held{finish: make(chan struct{})}
		turns := NewSlots()
		handler := turns.Handler(h)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { call(t.Context(), handler, "10.0.0.1") })
		}
		synctest.Wait()
		assert.EqualValues(t, 1, h.running.Load(), "one request of an address runs")
		for _, scraper := range []string{"10.0.0.2", "10.0.0.3"} {
			all.Go(func() { call(t.Context(), handler, scraper) })
		}
		synctest.Wait()
		assert.EqualValues(t, 3, h.running.Load(), "both scrapes run at once")
		close(h.finish)
		all.Wait()
		assert.EqualValues(t, slotsInAll, h.highest.Load())
		assert.Empty(t, turns.callers, "no address is held in memory")
	})
}

func TestACallerWhoLeavesWaitsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &held{finish: make(chan struct{})}
		turns := NewSlots()
		handler := turns.Handler(h)
		var all sync.WaitGroup
		for _, address := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
			all.Go(func() { call(t.Context(), handler, address) })
		}
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		for _, address := range []string{"10.0.0.1", "10.0.0.4"} { // one waits for its address, one for all
			all.Go(func() { call(ctx, handler, address) })
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		require.Len(t, turns.callers, 3)
		close(h.finish)
		all.Wait()
		assert.Empty(t, turns.callers)
		assert.Equal(t, http.StatusOK, call(t.Context(), handler, "10.0.0.4").Code, "its turn was not lost")
	})
}
