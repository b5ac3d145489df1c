package webhook_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"nodekeep.dev/nodekeep/policy"
)

// unread fails the test when it is read.
type unread struct {
	t *testing.T
	io.Reader
}

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func TestReviewsBeyondTheLimitsAreSentBackUnreadAndUsualOnesOfOthersAnswered(t *testing.T) {
	usual := bodyOf(t, creation(byKubelet(), []byte(`{"metadata":{"name":"worker-1"}}`)))
	request := func(address string, length int64, body io.Reader) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/restore", body)
		r.RemoteAddr, r.ContentLength = address, length
		return r
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	first := true
	h := newHookWith(func(context.Context, admission.Request) admission.Response {
		if first {
			first = false
			close(entered)
			<-leave
		}
		return admission.Allowed("")
	}, yes)
	// Two large bodies at once are more than a third of what is there for them.
	body, sender := io.Pipe()
	done := make(chan struct{}, 2)
	go func() {
		h.ServeHTTP(httptest.NewRecorder(), request("10.0.0.1:1", 6<<20, body))
		done <- struct{}{}
	}()
	_, _ = sender.Write([]byte(" "))

	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, request("10.0.0.1:2", 6<<20, unread{t: t}))
	assert.Equal(t, http.StatusServiceUnavailable, answer.Code)
	assert.Equal(t, "0", answer.Header().Get("Retry-After"), "the API server tries again at once only for 0")
	requireNoReview(t, answer.Body.Bytes())
	assert.Equal(t, 1, h.count(t, reviewsTotal, "too_busy"))

	go func() {
		answer := httptest.NewRecorder()
		r := post(usual)
		r.RemoteAddr = "10.0.0.9:443"
		h.ServeHTTP(answer, r)
		assert.Equal(t, http.StatusOK, answer.Code)
		done <- struct{}{}
	}()
	awaitClosed(t, entered)
	close(leave)
	<-done
	_ = sender.Close()
	<-done
	answer = httptest.NewRecorder()
	h.ServeHTTP(answer, request("10.0.0.1:2", 6<<20, io.LimitReader(zeros{}, 6<<20)))
	assert.Equal(t, http.StatusBadRequest, answer.Code, "read, once there is room again")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestABodyThatIsTooLongByItsHeaderIsNotRead(t *testing.T) {
	h := newHook(&records{}, policy.Default())
	r := httptest.NewRequest(http.MethodPost, "/restore", unread{t: t})
	r.ContentLength = 7<<20 + 1
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	assert.Equal(t, http.StatusRequestEntityTooLarge, answer.Code)
}
