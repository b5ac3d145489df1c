package webhook_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/storetest"
	"nodekeep.dev/nodekeep/webhook"
)

// records are the records in memory; raw bytes go in with Tamper. They were received that long ago: the zero value is current.
type records struct {
	storetest.Memory
	age time.Duration
}

var _ webhook.Records = (*records)(nil)

func (r *records) Progress() time.Time { return time.Now().Add(-r.age) }

// remember stores the record of worker-1 with the labels.
func (r *records) remember(t testing.TB, labels map[string]string) *records {
	t.Helper()
	_, err := r.Put(t.Context(), record.New(worker, record.Object{}, labels), "")
	require.NoError(t, err)
	return r
}

// stampOf returns the stamp of an object of which nodekeep set these items in its CREATE.
func stampOf(given map[string]string) record.Stamp {
	return record.Stamp{}.Merge(given, record.Record{}, 0)
}

// hook is the webhook as the API server meets it.
type hook struct {
	http.Handler
	registry *prometheus.Registry
}

func newHook(known webhook.Records, p policy.Policy) *hook {
	reviews, registry := newReviews(quiet())
	handler := webhook.NewHandler(known, func() policy.Policy { return p }, reviews.Metrics, quiet())
	return &hook{reviews.Handler(webhook.RestoreReview, handler), registry}
}

// newReviews are ready, with metrics of their own.
func newReviews(logger *slog.Logger) (webhook.Reviews, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	return webhook.Reviews{Ready: yes, Limits: webhook.NewLimits(), Metrics: webhook.NewMetrics(registry), Logger: logger}, registry
}

// newHookWith returns a hook with a handler and a readiness of the test's own.
func newHookWith(handler admission.HandlerFunc, ready func() bool) *hook {
	reviews, registry := newReviews(quiet())
	reviews.Ready = ready
	return &hook{reviews.Handler(webhook.RestoreReview, handler), registry}
}

func yes() bool { return true }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// send sends a body as the API server does.
func (h *hook) send(body []byte) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, post(body))
	return answer
}

func post(body []byte) *http.Request {
	request := httptest.NewRequest(http.MethodPost, "/restore?timeout=1s", bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	return request
}

// review sends an AdmissionReview and reads the one that answers it.
func (h *hook) review(t testing.TB, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	answer := h.send(body)
	require.Equal(t, http.StatusOK, answer.Code, answer.Body)
	require.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	var review admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &review))
	require.Equal(t, reviewType, review.TypeMeta)
	require.Nil(t, review.Request)
	require.NotNil(t, review.Response)
	return review.Response
}

// series returns those of a metric, by their label, or by both with a slash between them.
func series(t testing.TB, registry *prometheus.Registry, name string) map[string]*dto.Metric {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	series := map[string]*dto.Metric{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == name {
				var values []string
				for _, label := range metric.GetLabel() {
					values = append(values, label.GetValue())
				}
				series[strings.Join(values, "/")] = metric
			}
		}
	}
	return series
}

// count returns the value of a counter for one outcome.
func (h *hook) count(t testing.TB, name, outcome string) int {
	t.Helper()
	counters := series(t, h.registry, name)
	require.Contains(t, counters, outcome)
	return int(counters[outcome].GetCounter().GetValue())
}

// outcomes returns the counts of reviews that are not 0.
func (h *hook) outcomes(t testing.TB) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for outcome := range series(t, h.registry, reviewsTotal) {
		counts[outcome] = h.count(t, reviewsTotal, outcome)
	}
	maps.DeleteFunc(counts, func(_ string, count int) bool { return count == 0 })
	return counts
}

const (
	worker       = "worker-1"
	reviewsTotal = "nodekeep_webhook_reviews_total"
	itemsTotal   = "nodekeep_webhook_items_total"
)

var (
	reviewType = metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}
	nodeKind   = metav1.GroupVersionKind{Version: "v1", Kind: "Node"}
)

// byKubelet returns who registers worker-1.
func byKubelet() authenticationv1.UserInfo {
	return authenticationv1.UserInfo{Username: "system:node:" + worker, Groups: []string{"system:nodes", "system:authenticated"}}
}

// creation returns the request to create an object as a Node.
func creation(user authenticationv1.UserInfo, object []byte) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		UID:       "4f1d2c3b-0000-4000-8000-000000000001",
		Kind:      nodeKind,
		Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "nodes"},
		Name:      worker,
		Operation: admissionv1.Create,
		UserInfo:  user,
		Object:    runtime.RawExtension{Raw: object},
	}
}

// bodyOf returns the AdmissionReview that brings a request.
func bodyOf(t testing.TB, request *admissionv1.AdmissionRequest) []byte {
	t.Helper()
	return marshal(t, admissionv1.AdmissionReview{TypeMeta: reviewType, Request: request})
}

func marshal(t testing.TB, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	require.NoError(t, err)
	return data
}
