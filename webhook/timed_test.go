package webhook_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"nodekeep.dev/nodekeep/webhook"
)

// slow takes its time before it reads or writes.
type slow struct {
	io.Reader
	http.ResponseWriter
	takes time.Duration
}

func (s slow) Read(p []byte) (int, error) {
	time.Sleep(s.takes)
	return s.Reader.Read(p)
}

func (s slow) Write(from []byte) (int, error) {
	time.Sleep(s.takes)
	return s.ResponseWriter.Write(from)
}

func TestARequestIsTimedFromItsBodyToItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reviews, registry := newReviews(quiet())
		decides := admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
			time.Sleep(10 * time.Millisecond)
			return admission.Allowed("")
		})
		hook := reviews.Handler(webhook.RestoreReview, decides)
		body := bodyOf(t, creation(byKubelet(), []byte(`{"metadata":{"name":"worker-1"}}`)))
		var reads int
		request := httptest.NewRequest(http.MethodPost, "/restore", slow{Reader: counting{bytes.NewReader(body), &reads}, takes: 10 * time.Millisecond})

		hook.ServeHTTP(slow{ResponseWriter: httptest.NewRecorder(), takes: 10 * time.Millisecond}, request)

		count, sum := requests(t, registry, "restore")
		assert.EqualValues(t, 1, count)
		assert.InDelta(t, float64(reads)*0.01+0.02, sum, 1e-9, "reads of the body, the decision and the answer")
		for _, second := range []string{"restore_protected", "deletion"} {
			count, _ := requests(t, registry, second)
			assert.Zero(t, count, second)
		}
	})
}

func TestARequestThatPanicsIsTimedToo(t *testing.T) {
	reviews, registry := newReviews(quiet())
	panics := admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { panic("at the worst moment") })
	hook := reviews.Handler(webhook.DeletionReview, panics)
	hook.ServeHTTP(httptest.NewRecorder(), post(bodyOf(t, creation(byKubelet(), []byte(`{}`)))))
	count, _ := requests(t, registry, "deletion")
	assert.EqualValues(t, 1, count)
}

// counting counts how often it is read.
type counting struct {
	io.Reader
	reads *int
}

func (c counting) Read(p []byte) (int, error) {
	*c.reads++
	return c.Reader.Read(p)
}

func requests(t *testing.T, registry *prometheus.Registry, review string) (count uint64, sum float64) {
	t.Helper()
	histogram := series(t, registry, "nodekeep_webhook_request_duration_seconds")[review].GetHistogram()
	require.NotNil(t, histogram)
	return histogram.GetSampleCount(), histogram.GetSampleSum()
}
