package harness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// MustRecord returns the record of a Node that has one.
func (i *Installation) MustRecord(t testing.TB, node string) record.Record {
	t.Helper()
	found, ok := i.Record(t, node)
	require.True(t, ok, "there must be a record of node %s", node)
	return found
}

// RecordMap returns the ConfigMap of a record as it is stored. Its resourceVersion shows whether the record was written.
func (i *Installation) RecordMap(t testing.TB, node string) *corev1.ConfigMap {
	t.Helper()
	cm, err := i.Admin.CoreV1().ConfigMaps(Namespace).Get(t.Context(), store.Name(node), metav1.GetOptions{})
	require.NoError(t, err)
	return cm
}

// WaitRecordedAtLeast waits until the record of a Node holds at least these items, for this Node object.
func (i *Installation) WaitRecordedAtLeast(t testing.TB, node *corev1.Node, want map[string]string) {
	t.Helper()
	var last record.Record
	Eventually(t, func() bool {
		var ok bool
		last, ok = i.Record(t, node.Name)
		return ok && last.Newest().UID == node.UID && HasAll(last.Items(), want)
	}, Settles, 20*time.Millisecond, "the record of node %s must come to hold %v; last seen %+v", node.Name, want, &last)
}

// WaitDeletionRecorded waits until the record of a Node shows that the Node is deleted.
func (i *Installation) WaitDeletionRecorded(t testing.TB, node string) record.Record {
	t.Helper()
	var found record.Record
	Eventually(t, func() bool {
		var ok bool
		found, ok = i.Record(t, node)
		return ok && !found.DeletedAt.IsZero()
	}, Settles, 20*time.Millisecond, "the record must say that node %s is deleted", node)
	return found
}

// WaitNoRecord waits until there is no record of a Node.
func (i *Installation) WaitNoRecord(t testing.TB, node string) {
	t.Helper()
	Eventually(t, func() bool { _, ok := i.Record(t, node); return !ok }, Settles, 20*time.Millisecond, "the record of %s must be collected", node)
}

// AgeRecord puts into the record of a Node that the Node was deleted so long ago.
func (i *Installation) AgeRecord(t testing.TB, node string, deleted time.Duration) {
	t.Helper()
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cm := i.RecordMap(t, node)
		found, err := store.Decode([]byte(cm.Data[store.DataKey]), node)
		require.NoError(t, err)
		found.DeletedAt = time.Now().Add(-deleted)
		data, err := store.Encode(found)
		require.NoError(t, err)
		cm.Data[store.DataKey] = string(data)
		_, err = i.Admin.CoreV1().ConfigMaps(Namespace).Update(t.Context(), cm, metav1.UpdateOptions{})
		return err
	}))
}
