package bed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Review returns the body of the call for a registering Node.
func (b *Bed) Review(node string) []byte {
	object, err := json.Marshal(b.Registration(node))
	require.NoError(b, err)
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: admissionv1.SchemeGroupVersion.String()},
		Request: &admissionv1.AdmissionRequest{
			UID: types.UID("bench-" + node), Name: node, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: object},
			Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Node"},
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "nodes"},
			UserInfo: authenticationv1.UserInfo{Username: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"}},
		},
	})
	require.NoError(b, err)
	return body
}

// Call calls a webhook as the API server does, without an API server. It checks that the answer allows the request and restores the labels.
func (p *Program) Call(ctx context.Context, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+p.reviews+string(Nodekeep)+"?timeout=1s", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("call webhook: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := p.bed.web.Do(request)
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
