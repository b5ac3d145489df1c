package store

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// LoadedForTest returns a store that has many records in memory, and no API server.
func LoadedForTest(t testing.TB, plural int, configMap func(int) *corev1.ConfigMap) *ConfigMaps {
	t.Helper()
	c, err := NewConfigMaps(fake.NewClientset(), "nodekeep-system", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	for i := range plural {
		object, err := compact(configMap(i))
		require.NoError(t, err)
		require.NoError(t, c.cache.informer.GetIndexer().Add(object))
	}
	return c
}

// IndexForTest does what the informer does for a handler that comes later.
func (c *ConfigMaps) IndexForTest() {
	for _, object := range c.cache.informer.GetStore().List() {
		c.cache.machines.replaced(nil, object)
	}
}

// LaggingForTest is a store whose watch brings what the test says, and whose handlers of the watch have not run yet.
type LaggingForTest struct {
	*ConfigMaps
	t testing.TB
}

// NewLaggingForTest returns one that has no record.
func NewLaggingForTest(t testing.TB) LaggingForTest {
	t.Helper()
	return LaggingForTest{ConfigMaps: LoadedForTest(t, 0, nil), t: t}
}

// Wrote plays the API server's answer to a write.
func (l LaggingForTest) Wrote(cm *corev1.ConfigMap) { l.cache.wrote(cm) }

// Removed plays the API server's answer to a removal.
func (l LaggingForTest) Removed(name, version string) { l.cache.removed(name, version) }

// Brings plays an event of the watch.
func (l LaggingForTest) Brings(cm *corev1.ConfigMap) {
	l.t.Helper()
	object, err := compact(cm)
	require.NoError(l.t, err)
	require.NoError(l.t, l.cache.informer.GetIndexer().Add(object))
}

// BringsRemoval plays the event of a removal.
func (l LaggingForTest) BringsRemoval(cm *corev1.ConfigMap) {
	l.t.Helper()
	object, err := compact(cm)
	require.NoError(l.t, err)
	require.NoError(l.t, l.cache.informer.GetIndexer().Delete(object))
}
