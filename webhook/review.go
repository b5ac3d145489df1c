package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"golang.org/x/time/rate"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/policy"
)

// maxReviewBytes bounds what is read of a request; the API server takes objects of 3 MiB at most.
const maxReviewBytes = 7 << 20

// maxShown is how much of a client's text is shown: in a log, and in the answer to it.
const maxShown = 512

func short(text string) string { return policy.Shortened(text, maxShown) }

// retryPause is how long a request waits before it is sent back to be tried again.
const retryPause = 50 * time.Millisecond

// Reviews serves AdmissionReviews by HTTP, and has what all kinds of them share. While Ready is false, and beyond the limits, it answers 503
// with `Retry-After: 0`. The API server then tries again within the webhook's timeout, and may reach another replica.
type Reviews struct {
	Ready   func() bool
	Limits  *Limits
	Metrics *Metrics
	Logger  *slog.Logger
}

// Handler serves the reviews of one kind. The handler of [DeletionReview] waits for the API server, for as long as its caller does. Other reviews
// can be decoded meanwhile. All other handlers answer from memory.
func (r Reviews) Handler(kind Review, handler admission.Handler) http.Handler {
	waits := kind == DeletionReview
	var served http.Handler = &reviews{Reviews: r, handler: handler, waits: waits, warnings: rate.Sometimes{Interval: time.Second}}
	if waits {
		served = patience(served)
	}
	return r.Metrics.timed(kind, served)
}

// reviews turns HTTP requests into admission requests and back. The adapter of controller-runtime answers unreadable requests with
// `allowed: false`, which keeps Nodes out. Here, they become an HTTP error. That is a failed call to the API server, and failurePolicy
// Ignore lets the Node pass.
type reviews struct {
	Reviews
	handler admission.Handler
	waits   bool // the handler waits for the API server
	// warnings are logged once a second, since any client may send requests. The metric counts all.
	warnings rate.Sometimes
}

func (s *reviews) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := contain.Call(func() error { s.serve(w, r); return nil }); err != nil {
		s.Logger.Error("review panicked; the object passes as it is", "error", err)
		s.Metrics.passedOver(panicked)
		http.Error(w, "internal error", http.StatusInternalServerError)
	}
}

func (s *reviews) serve(w http.ResponseWriter, r *http.Request) {
	if !s.Ready() {
		s.sendBack(w, r, notReady, "records are still being read")
		return
	}
	if status, err := refusal(r); err != nil {
		s.refuse(w, status, err)
		return
	}
	review, ok := s.Limits.admit(r.RemoteAddr, r.ContentLength)
	if !ok {
		s.sendBack(w, r, tooBusy, "too many reviews at once")
		return
	}
	defer review.release()
	s.review(w, r, &review)
}

func (s *reviews) review(w http.ResponseWriter, r *http.Request, f *inFlight) {
	body, err := readBody(w, r)
	if err != nil {
		s.refuse(w, statusOf(err), fmt.Errorf("read body: %w", err))
		return
	}
	// The server's deadline was for the body. From here on the caller may wait as long as it likes.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if err := f.begin(r.Context()); err != nil {
		s.Metrics.passedOver(tooBusy)
		http.Error(w, "too many reviews at once", http.StatusServiceUnavailable)
		return
	}
	review, err := DecodeReview(body)
	if err != nil {
		f.end()
		s.refuse(w, http.StatusBadRequest, err)
		return
	}
	if s.waits {
		f.end()
	}
	request := admission.Request{AdmissionRequest: *review.Request}
	response := s.handler.Handle(r.Context(), request)
	f.end()
	s.answer(w, review.TypeMeta, request, response)
}

func (s *reviews) refuse(w http.ResponseWriter, status int, err error) {
	says := short(err.Error())
	s.warnings.Do(func() { s.Logger.Warn("request is no AdmissionReview", "error", says) })
	s.Metrics.passedOver(malformedReview)
	http.Error(w, says, status)
}

func (s *reviews) sendBack(w http.ResponseWriter, r *http.Request, reason outcome, says string) {
	s.Metrics.passedOver(reason)
	select {
	case <-time.After(retryPause):
	case <-r.Context().Done():
	}
	w.Header().Set("Retry-After", "0")
	http.Error(w, says, http.StatusServiceUnavailable)
}

func (s *reviews) answer(w http.ResponseWriter, kind metav1.TypeMeta, request admission.Request, response admission.Response) {
	if err := complete(&response, request); err != nil {
		s.Logger.Error("patch cannot be written; the object passes as it is", "node", short(request.Name), "error", err)
		http.Error(w, "complete response", http.StatusInternalServerError)
		return
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: kind, Response: &response.AdmissionResponse})
	if err != nil {
		s.Logger.Error("response cannot be written; the object passes as it is", "node", short(request.Name), "error", err)
		http.Error(w, "marshal response", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(body); err != nil {
		s.warnings.Do(func() {
			s.Logger.Warn("API server did not wait for the answer", "node", short(request.Name), "error", err)
		})
	}
}

// complete does the same as [admission.Response.Complete], but writes the patch in one pass. [admission.Response.Complete] encodes every
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

// refusal is for requests that are refused by their header alone, with the HTTP status that says it.
func refusal(r *http.Request) (status int, err error) {
	switch {
	case r.Method != http.MethodPost:
		return http.StatusMethodNotAllowed, errors.New("an AdmissionReview comes by POST")
	case r.ContentLength > maxReviewBytes:
		return http.StatusRequestEntityTooLarge, fmt.Errorf("read body: it has %d bytes, %d are the most", r.ContentLength, maxReviewBytes)
	default:
		return http.StatusOK, nil
	}
}

// statusOf returns the HTTP status for a body that could not be read.
func statusOf(err error) int {
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return http.StatusRequestEntityTooLarge
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return http.StatusRequestTimeout
	}
	return http.StatusBadRequest
}

// readBody takes the room for the whole body at once, since a buffer that grows leaves as much garbage.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	length := r.ContentLength
	if length < 0 {
		length = maxReviewBytes
	}
	var body bytes.Buffer
	body.Grow(bytes.MinRead + int(length))
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxReviewBytes))
	return body.Bytes(), err
}
