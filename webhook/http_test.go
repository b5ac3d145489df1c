package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/webhook"
)

// What is no AdmissionReview must become a failed call, which failurePolicy Ignore forgives. `allowed: false`, which it does
// not forgive, would keep the Node out.
func TestWhatIsNoReviewIsAnHTTPError(t *testing.T) {
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1"}}`
	tests := map[string]struct {
		method string
		body   io.Reader
		status int
	}{
		"the body is empty":                {http.MethodPost, strings.NewReader(""), http.StatusBadRequest},
		"the body is not JSON":             {http.MethodPost, strings.NewReader("apiVersion: admission.k8s.io/v1"), http.StatusBadRequest},
		"the body is cut off":              {http.MethodPost, strings.NewReader(review[:len(review)-1]), http.StatusBadRequest},
		"the body holds two reviews":       {http.MethodPost, strings.NewReader(review + review), http.StatusBadRequest},
		"the body is null":                 {http.MethodPost, strings.NewReader("null"), http.StatusBadRequest},
		"the body is a list":               {http.MethodPost, strings.NewReader("[" + review + "]"), http.StatusBadRequest},
		"the apiVersion is an old one":     {http.MethodPost, strings.NewReader(strings.Replace(review, "io/v1", "io/v1beta1", 1)), http.StatusBadRequest},
		"the apiVersion is missing":        {http.MethodPost, strings.NewReader(`{"kind":"AdmissionReview","request":{"uid":"1"}}`), http.StatusBadRequest},
		"it is a conversion review":        {http.MethodPost, strings.NewReader(strings.Replace(review, "AdmissionReview", "ConversionReview", 1)), http.StatusBadRequest},
		"it holds no request":              {http.MethodPost, strings.NewReader(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), http.StatusBadRequest},
		"its request is null":              {http.MethodPost, strings.NewReader(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}`), http.StatusBadRequest},
		"its request is a list":            {http.MethodPost, strings.NewReader(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":[]}`), http.StatusBadRequest},
		"it comes by GET":                  {http.MethodGet, nil, http.StatusMethodNotAllowed},
		"it comes by PUT":                  {http.MethodPut, strings.NewReader(review), http.StatusMethodNotAllowed},
		"the body is larger than 7 MiB":    {http.MethodPost, bytes.NewReader(bytes.Repeat([]byte(" "), 7<<20+1)), http.StatusRequestEntityTooLarge},
		"the caller goes while it is read": {http.MethodPost, iotest.ErrReader(errors.New("connection reset")), http.StatusBadRequest},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHook(&records{}, policy.Default())
			answer := httptest.NewRecorder()

			h.ServeHTTP(answer, httptest.NewRequest(test.method, "/restore", test.body))

			assert.Equal(t, test.status, answer.Code)
			requireNoReview(t, answer.Body.Bytes())
			assert.Equal(t, 1, h.count(t, reviewsTotal, "malformed_review"))
		})
	}
}

// The largest body that is read is one of 7 MiB: the spaces belong to it.
func TestReviewOf7MiBIsAnswered(t *testing.T) {
	h := newHook(&records{}, policy.Default())
	body := bodyOf(t, creation(byKubelet(), []byte(`{"metadata":{"name":"worker-1"}}`)))
	body = append(body, bytes.Repeat([]byte(" "), 7<<20-len(body))...)

	assert.True(t, h.review(t, body).Allowed)
}

func TestReviewIsSentBackWhileRecordsAreBeingRead(t *testing.T) {
	h := newHookWith(func(context.Context, admission.Request) admission.Response {
		t.Error("the handler was asked")
		return admission.Allowed("")
	}, func() bool { return false })

	answer := h.send(bodyOf(t, creation(byKubelet(), []byte(`{"metadata":{"name":"worker-1"}}`))))

	assert.Equal(t, http.StatusServiceUnavailable, answer.Code)
	assert.Equal(t, "0", answer.Header().Get("Retry-After"), "the API server tries again at once only for 0")
	requireNoReview(t, answer.Body.Bytes())
	assert.Equal(t, 1, h.count(t, reviewsTotal, "not_ready"))
}

// The pause leaves the API server's ten tries time for another replica to answer; a caller that has hung up needs none.
func TestPauseBeforeAReviewIsSentBack(t *testing.T) {
	for name, test := range map[string]struct {
		gone  bool
		pause time.Duration
	}{
		"the caller waits":       {false, 50 * time.Millisecond},
		"the caller has hung up": {true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHookWith(nil, func() bool { return false })
				caller, leave := context.WithCancel(t.Context())
				defer leave()
				if test.gone {
					leave()
				}
				began := time.Now()

				h.ServeHTTP(httptest.NewRecorder(), post(nil).WithContext(caller))

				assert.Equal(t, test.pause, time.Since(began))
			})
		})
	}
}

// controller-runtime would answer a panic with `allowed: false`.
func TestHandlerThatPanics(t *testing.T) {
	const poison = "poison"
	h := newHookWith(func(_ context.Context, request admission.Request) admission.Response {
		if request.Name == poison {
			panic("no such luck")
		}
		return admission.Allowed("")
	}, yes)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	request := creation(byKubelet(), []byte(`{"metadata":{"name":"worker-1"}}`))
	poisoned := *request
	poisoned.Name = poison

	status, body := postTo(t, server, bodyOf(t, &poisoned))
	assert.Equal(t, http.StatusInternalServerError, status)
	requireNoReview(t, body)
	assert.Equal(t, 1, h.count(t, reviewsTotal, "panicked"))

	status, body = postTo(t, server, bodyOf(t, request))
	assert.Equal(t, http.StatusOK, status, "the process lives")
	var review admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(body, &review))
	assert.True(t, review.Response.Allowed)
	assert.Equal(t, 1, h.count(t, reviewsTotal, "panicked"))
}

func TestAnswerThatCannotBeWritten(t *testing.T) {
	h := newHookWith(func(context.Context, admission.Request) admission.Response {
		return admission.Patched("", jsonpatch.NewOperation("add", "/metadata/labels", func() {}))
	}, yes)

	answer := h.send(bodyOf(t, creation(byKubelet(), []byte(`{"metadata":{"name":"worker-1"}}`))))

	assert.Equal(t, http.StatusInternalServerError, answer.Code)
	requireNoReview(t, answer.Body.Bytes())
}

func TestCallerThatDoesNotWaitForTheAnswer(t *testing.T) {
	h := newHook(&records{}, policy.Default())
	body := bodyOf(t, creation(byKubelet(), []byte(`{"metadata":{"name":"worker-1"}}`)))

	h.ServeHTTP(hungUp{httptest.NewRecorder()}, post(body))

	assert.Equal(t, map[string]int{"nothing_missing": 1}, h.outcomes(t), "and no panic")
}

// hungUp is a caller that has hung up before the answer comes.
type hungUp struct{ http.ResponseWriter }

func (hungUp) Write([]byte) (int, error) { return 0, net.ErrClosed }

func postTo(t *testing.T, server *httptest.Server, body []byte) (status int, answer []byte) {
	t.Helper()
	response, err := server.Client().Post(server.URL, "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, answer
}

// requireNoReview says that the API server cannot take an answer for a decision.
func requireNoReview(t *testing.T, body []byte) {
	t.Helper()
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err == nil {
		require.Nil(t, review.Response)
	}
	require.NotContains(t, string(body), "allowed\"")
}

// Anybody may send requests, so they must not fill the log.
func TestRequestsThatCannotBeReadAreLoggedOnceASecond(t *testing.T) {
	malformed := []byte("no review")
	unreadable := bodyOf(t, creation(byKubelet(), []byte(`{"metadata":{"name":1}}`)))
	large := []byte(`{"apiVersion":"` + strings.Repeat("v", 1<<20) + `"}`)
	for name, body := range map[string][]byte{"no review": malformed, "no Node": unreadable, "a review of another version": large} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				logger := slog.New(slog.NewTextHandler(&log, nil))
				reviews, _ := newReviews(logger)
				h := reviews.Handler(webhook.RestoreReview, webhook.NewHandler(&records{}, policy.Default, reviews.Metrics, logger))
				for range 100 {
					answer := httptest.NewRecorder()
					h.ServeHTTP(answer, post(body))
					require.Less(t, answer.Body.Len(), 4<<10)
				}
				assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("\n")))
				time.Sleep(time.Second)
				h.ServeHTTP(httptest.NewRecorder(), post(body))
				assert.Equal(t, 2, bytes.Count(log.Bytes(), []byte("\n")))
				assert.Less(t, log.Len(), 4<<10, "nor does a single one fill it")
			})
		})
	}
}
