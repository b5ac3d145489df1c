package storetest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"nodekeep.dev/nodekeep/store"
)

// Cluster is the store in a cluster, with the hooks of the contract.
type Cluster struct {
	*store.ConfigMaps
	t         *testing.T
	admin     kubernetes.Interface
	namespace string
}

// ConfigMaps runs a store until the test ends and waits until it has synced. The store works as client. The hooks of the contract work as admin, who
// may write any ConfigMap in the namespace.
func ConfigMaps(t *testing.T, client, admin kubernetes.Interface, namespace string) *Cluster {
	t.Helper()
	records, err := store.NewConfigMaps(client, namespace, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		records.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	require.Eventually(t, records.Synced, patience, 5*time.Millisecond)
	return &Cluster{ConfigMaps: records, t: t, admin: admin, namespace: namespace}
}

// Tamper puts any bytes in the place of a Node's record.
func (c *Cluster) Tamper(node string, data []byte) {
	c.t.Helper()
	configMaps := c.admin.CoreV1().ConfigMaps(c.namespace)
	require.NoError(c.t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		cm, err := configMaps.Get(context.Background(), store.Name(node), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = configMaps.Create(context.Background(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: store.Name(node), Labels: map[string]string{store.RecordLabel: "true"}},
				Data:       map[string]string{store.DataKey: string(data)},
			}, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		cm.Data = map[string]string{store.DataKey: string(data)}
		_, err = configMaps.Update(context.Background(), cm, metav1.UpdateOptions{})
		return err
	}))
}

// Remove deletes the ConfigMap of a Node's record.
func (c *Cluster) Remove(node string) {
	c.t.Helper()
	err := c.admin.CoreV1().ConfigMaps(c.namespace).Delete(context.Background(), store.Name(node), metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		require.NoError(c.t, err)
	}
}
