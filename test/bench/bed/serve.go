package bed

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/utils/ptr"
)

// countPath is where the server shows how many reviews it has answered.
const countPath = "/count"

// ServeReference serves the reference webhooks. They do the least that a webhook in Go with the usual types can do. They decode the AdmissionReview
// and answer it. ServeReference returns when it cannot serve.
func ServeReference(address, certFile, keyFile string) error {
	var served atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+countPath, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, served.Load()) })
	for _, answerer := range []Answerer{Noop, Mark, Labels} {
		patch, err := constantPatch(answerer)
		if err != nil {
			return err
		}
		mux.HandleFunc("POST "+string(answerer), func(w http.ResponseWriter, r *http.Request) {
			served.Add(1)
			if err := review(w, r, patch); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
			}
		})
	}
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return server.ListenAndServeTLS(certFile, keyFile)
}

func review(w http.ResponseWriter, r *http.Request, patch []byte) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return err
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	if patch != nil {
		review.Response.Patch, review.Response.PatchType = patch, ptr.To(admissionv1.PatchTypeJSONPatch)
	}
	answer, err := json.Marshal(review)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(answer)
	return err
}

// constantPatch returns what a reference webhook always answers; nothing for the no-op.
func constantPatch(answerer Answerer) ([]byte, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value string `json:"value"`
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1").Replace
	var operations []operation
	if answerer == Labels {
		kept := Kept()
		for _, key := range slices.Sorted(maps.Keys(kept)) {
			operations = append(operations, operation{"add", "/metadata/labels/" + escape(key), kept[key]})
		}
	}
	if answerer == Labels || answerer == Mark {
		operations = append(operations, operation{"add", "/metadata/annotations/" + escape(markAnnotation), string(answerer)})
	}
	if operations == nil {
		return nil, nil
	}
	return json.Marshal(operations)
}
