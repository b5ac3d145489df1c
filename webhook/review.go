package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"nodekeep.dev/nodekeep/contain"
)

// maxReviewBytes bounds what is read of a request; the API server takes objects of 3 MiB at most.
const maxReviewBytes = 7 << 20

// retryPause is how long a request waits before it is sent back to be tried again.
const retryPause = 50 * time.Millisecond

// reviews turns HTTP requests into admission requests and back. controller-runtime's own adapter answers what it cannot
// read with `allowed: false`, which keeps Nodes out; here it becomes an HTTP error, a failed call to the API server, and
// failurePolicy Ignore lets the Node pass.
type reviews struct {
	handler admission.Handler
	ready   func() bool
	metrics *Metrics
	logger  *slog.Logger
}

// Reviews serves AdmissionReviews with a handler. While ready is false it answers 503 with `Retry-After: 0`: the API
// server then tries again within the webhook's timeout, and may reach a replica that is ready.
func Reviews(handler admission.Handler, ready func() bool, metrics *Metrics, logger *slog.Logger) http.Handler {
	return &reviews{handler: handler, ready: ready, metrics: metrics, logger: logger}
}

func (s *reviews) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := contain.Call(func() error { s.serve(w, r); return nil }); err != nil {
		s.logger.Error("review panicked; the Node passes unpatched", "error", err)
		s.metrics.refused(panicked)
		http.Error(w, "internal error", http.StatusInternalServerError)
	}
}

func (s *reviews) serve(w http.ResponseWriter, r *http.Request) {
	if !s.ready() {
		s.sendBack(w, r)
		return
	}
	review, status, err := readReview(w, r)
	if err != nil {
		s.logger.Warn("request is no AdmissionReview", "error", err)
		s.metrics.refused(malformedReview)
		http.Error(w, err.Error(), status)
		return
	}
	request := admission.Request{AdmissionRequest: *review.Request}
	response := s.handler.Handle(r.Context(), request)
	s.answer(w, review.TypeMeta, request, response)
}

func (s *reviews) sendBack(w http.ResponseWriter, r *http.Request) {
	s.metrics.refused(notReady)
	select {
	case <-time.After(retryPause):
	case <-r.Context().Done():
	}
	w.Header().Set("Retry-After", "0")
	http.Error(w, "records are still being read", http.StatusServiceUnavailable)
}

func (s *reviews) answer(w http.ResponseWriter, kind metav1.TypeMeta, request admission.Request, response admission.Response) {
	if err := complete(&response, request); err != nil {
		s.logger.Error("patch cannot be written; the Node passes unpatched", "node", request.Name, "error", err)
		http.Error(w, "complete response", http.StatusInternalServerError)
		return
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: kind, Response: &response.AdmissionResponse})
	if err != nil {
		s.logger.Error("response cannot be written; the Node passes unpatched", "node", request.Name, "error", err)
		http.Error(w, "marshal response", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(body); err != nil {
		s.logger.Warn("API server did not wait for the answer", "node", request.Name, "error", err)
	}
}

// complete does what [admission.Response.Complete] does, but for the patch, which it writes in one pass: that one encodes every
// operation by itself and then all of them again.
func complete(response *admission.Response, request admission.Request) error {
	if len(response.Patches) > 0 {
		patch, err := encode(response.Patches)
		if err != nil {
			return err
		}
		response.Patch, response.PatchType, response.Patches = patch, new(admissionv1.PatchTypeJSONPatch), nil
	}
	return response.Complete(request)
}

// readReview reads the body; with an error comes the HTTP status that says it.
func readReview(w http.ResponseWriter, r *http.Request) (admissionv1.AdmissionReview, int, error) {
	var review admissionv1.AdmissionReview
	if r.Method != http.MethodPost {
		return review, http.StatusMethodNotAllowed, errors.New("an AdmissionReview comes by POST")
	}
	body, err := readBody(w, r)
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return review, http.StatusRequestEntityTooLarge, fmt.Errorf("read body: %w", err)
	}
	if err != nil {
		return review, http.StatusBadRequest, fmt.Errorf("read body: %w", err)
	}
	if review, err = DecodeReview(body); err != nil {
		return review, http.StatusBadRequest, err
	}
	return review, http.StatusOK, nil
}

// usualReviewBytes holds the review of most Nodes; what a caller says of its length is not believed beyond.
const usualReviewBytes = 64 << 10

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	var body bytes.Buffer
	body.Grow(bytes.MinRead + int(min(max(r.ContentLength, 0), usualReviewBytes)))
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxReviewBytes))
	return body.Bytes(), err
}
