package bed

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Caller calls nodekeep's webhook as the API server does, without an API server.
type Caller struct {
	web     *http.Client
	address string
}

// Caller makes a caller of a webhook.
func (p *Program) Caller() *Caller {
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(p.bed.certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true}
	return &Caller{web: &http.Client{Timeout: 10 * time.Second, Transport: transport}, address: "https://" + p.reviews}
}

// Review is the body of the call for a registering Node.
func (b *Bed) Review(node string) ([]byte, error) {
	object, err := json.Marshal(b.Registration(node))
	if err != nil {
		return nil, fmt.Errorf("write node %q: %w", node, err)
	}
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: admissionv1.SchemeGroupVersion.String()},
		Request: &admissionv1.AdmissionRequest{
			UID: types.UID("bench-" + node), Name: node, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: object},
			Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Node"},
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "nodes"},
			UserInfo: authenticationv1.UserInfo{Username: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"}},
		},
	})
}

// Call sends the body and checks that the answer allows the request and restores the labels.
func (c *Caller) Call(ctx context.Context, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address+string(Nodekeep)+"?timeout=1s", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("call webhook: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.web.Do(request)
	if err != nil {
		return fmt.Errorf("call webhook: %w", err)
	}
	defer response.Body.Close()
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&review); err != nil {
		return fmt.Errorf("call webhook: %s: %w", response.Status, err)
	}
	if review.Response == nil || !review.Response.Allowed || bytes.Count(review.Response.Patch, []byte("example.com~1k")) < len(Kept()) {
		return errors.New("call webhook: the answer does not allow the request and restore every label")
	}
	return nil
}
