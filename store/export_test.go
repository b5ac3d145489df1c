package store

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// LoadedForTest is a store that has many records in memory, and no API server.
func LoadedForTest(t testing.TB, many int, configMap func(int) *corev1.ConfigMap) *ConfigMaps {
	t.Helper()
	c, err := NewConfigMaps(fake.NewClientset(), "nodekeep-system", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	for i := range many {
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
