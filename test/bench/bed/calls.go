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
	return reviewOf(node, admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: object},
		UserInfo: authenticationv1.UserInfo{Username: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"}},
	})
}

// DeletionReview is the body of the call for a Node that exists and that an admin is about to delete.
func (b *Bed) DeletionReview(ctx context.Context, name string) ([]byte, error) {
	node, err := b.Admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read node %q: %w", name, err)
	}
	node.TypeMeta = metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}
	object, err := json.Marshal(node)
	if err != nil {
		return nil, fmt.Errorf("write node %q: %w", name, err)
	}
	return reviewOf(name, admissionv1.AdmissionRequest{
		Operation: admissionv1.Delete, OldObject: runtime.RawExtension{Raw: object},
		UserInfo: authenticationv1.UserInfo{Username: "kubernetes-admin", Groups: []string{"system:masters", "system:authenticated"}},
	})
}

// reviewOf is the body of the call about a Node.
func reviewOf(node string, request admissionv1.AdmissionRequest) ([]byte, error) {
	request.UID, request.Name = types.UID("bench-"+node), node
	request.Kind = metav1.GroupVersionKind{Version: "v1", Kind: "Node"}
	request.Resource = metav1.GroupVersionResource{Version: "v1", Resource: "nodes"}
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: admissionv1.SchemeGroupVersion.String()}, Request: &request,
	})
}

// Call sends the body of a registration and checks that the answer restores the labels.
func (c *Caller) Call(ctx context.Context, body []byte) error {
	answer, err := c.send(ctx, Nodekeep, body)
	if err == nil && bytes.Count(answer.Patch, []byte("example.com~1k")) < len(Kept()) {
		err = errors.New("call webhook: the answer does not restore every label")
	}
	return err
}

// CallForDeletion sends the body of a deletion and checks that the answer allows it.
func (c *Caller) CallForDeletion(ctx context.Context, body []byte) error {
	_, err := c.send(ctx, deletions, body)
	return err
}

// send returns an answer that allows the request.
func (c *Caller) send(ctx context.Context, path Answerer, body []byte) (*admissionv1.AdmissionResponse, error) {
	// The API server puts its timeout into the URL; nodekeep spends a part of it at a deletion.
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address+string(path)+"?timeout=1s", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("call webhook: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.web.Do(request)
	if err != nil {
		return nil, fmt.Errorf("call webhook: %w", err)
	}
	defer response.Body.Close()
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&review); err != nil {
		return nil, fmt.Errorf("call webhook: %s: %w", response.Status, err)
	}
	if review.Response == nil || !review.Response.Allowed {
		return nil, errors.New("call webhook: the answer does not allow the request")
	}
	return review.Response, nil
}
