package webhook

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// DryRun asks the API server what it would make of the registration of [SelfTestNode].
//
// It acts as the kubelet of that Node. Since Kubernetes 1.36, the right to do so can be limited to this one request. The caller names the user
// alone then, and the API server adds the group (KEP-5284, constrained impersonation). Before, the caller names both.
type DryRun struct {
	clients []kubernetes.Interface // in the order in which they are tried: the one that was last allowed first
}

// NewDryRun asks nothing yet. The config is that of the process.
func NewDryRun(config *rest.Config) (*DryRun, error) {
	r := &DryRun{}
	for _, groups := range [][]string{{kubeletGroup}, nil} {
		kubelet := rest.CopyConfig(config)
		kubelet.Impersonate = rest.ImpersonationConfig{UserName: kubeletUserPrefix + SelfTestNode, Groups: groups}
		client, err := kubernetes.NewForConfig(kubelet)
		if err != nil {
			return nil, fmt.Errorf("make a client for dry runs: %w", err)
		}
		r.clients = append(r.clients, client)
	}
	return r, nil
}

// Register returns the Node that the API server would store. It is for one goroutine at a time.
func (r *DryRun) Register(ctx context.Context) (*corev1.Node, error) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: SelfTestNode}}
	var refused []error
	for i, client := range r.clients {
		created, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) {
			r.clients[0], r.clients[i] = client, r.clients[0]
			return created, err
		}
		refused = append(refused, err)
	}
	return nil, errors.Join(refused...)
}
