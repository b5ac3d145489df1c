package store

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// Cluster knows which cluster this is: by the UID of the namespace kube-system, which lives as long as the cluster.
type Cluster struct {
	client kubernetes.Interface
	logger *slog.Logger
	uid    atomic.Pointer[string]
}

// NewCluster reads nothing yet.
func NewCluster(client kubernetes.Interface, logger *slog.Logger) *Cluster {
	return &Cluster{client: client, logger: logger}
}

// How often the namespace is read until it could be, and how long that may take.
const (
	clusterInterval = 5 * time.Second
	clusterTimeout  = 10 * time.Second
)

// UID is empty while the cluster is not known. Then no record counts as one of another cluster.
func (c *Cluster) UID() string {
	return ptr.Deref(c.uid.Load(), "")
}

// Run reads the namespace until it has its UID or ctx is done. Nobody has to wait for that.
func (c *Cluster) Run(ctx context.Context) {
	warned := ""
	_ = wait.PollUntilContextCancel(ctx, clusterInterval, true, func(ctx context.Context) (done bool, err error) {
		failure := c.Read(ctx)
		if failure != nil && ctx.Err() == nil && warned != failure.Error() {
			warned = failure.Error()
			c.logger.Warn("namespace kube-system cannot be read, so records do not name their cluster", "error", failure)
		}
		return failure == nil, nil
	})
}

// Read reads the namespace once.
func (c *Cluster) Read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	namespace, err := c.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return err
	}
	uid := string(namespace.UID)
	c.uid.Store(&uid)
	return nil
}
