package bed

import (
	"context"
	"net/http"
)

type kubeletOf struct{}

// AsKubelet has requests of Bed.Kubelets made as the kubelet of a Node.
func AsKubelet(ctx context.Context, node string) context.Context {
	return context.WithValue(ctx, kubeletOf{}, node)
}

// identity makes requests in the name of kubelets by impersonation. TLS handshakes with 100,000 client certificates would cost more than the measured
// registration.
type identity struct {
	next http.RoundTripper
}

func (i identity) RoundTrip(request *http.Request) (*http.Response, error) {
	if node, ok := request.Context().Value(kubeletOf{}).(string); ok {
		request = request.Clone(request.Context())
		request.Header.Set("Impersonate-User", "system:node:"+node)
		request.Header.Set("Impersonate-Group", "system:nodes")
	}
	return i.next.RoundTrip(request)
}
