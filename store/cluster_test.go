package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/storetest"
)

const namespace = "nodekeep-system"

// cluster is a store over the fake API server, with its informer running and watching.
type cluster struct {
	*storetest.Cluster
	t      *testing.T
	api    *api
	client *fake.Clientset
}

// patience is how long a test waits for what should happen at once.
const patience = 3 * time.Minute

func newCluster(t *testing.T, objects ...*corev1.ConfigMap) *cluster {
	t.Helper()
	server := newAPI()
	for _, cm := range objects {
		require.NoError(t, server.Create(configMaps, cm, cm.Namespace))
	}
	client := server.client()
	c := &cluster{Cluster: storetest.ConfigMaps(t, client, server.client(), namespace), t: t, api: server, client: client}
	require.Eventually(t, server.watched, patience, time.Millisecond)
	return c
}

func (c *cluster) put(node, value, version string) store.Entry {
	c.t.Helper()
	entry, err := c.Put(c.t.Context(), record.Record{Node: node, Entries: []record.Entry{{Key: "dedicated", Value: value}}}, version)
	require.NoError(c.t, err)
	return entry
}

// edit changes a ConfigMap as an operator would.
func (c *cluster) edit(node string, change func(cm *corev1.ConfigMap)) {
	c.t.Helper()
	cm := c.api.configMap(c.t, namespace, store.Name(node))
	require.NotNil(c.t, cm)
	change(cm)
	require.NoError(c.t, c.api.Update(configMaps, cm, namespace))
}

// shows waits until a read from memory has the value.
func (c *cluster) shows(node, value string) {
	c.t.Helper()
	require.EventuallyWithT(c.t, func(t *assert.CollectT) {
		entry, err := c.Get(node)
		require.NoError(t, err)
		assert.Equal(t, value, entry.Record.Items()["dedicated"])
	}, patience, 5*time.Millisecond)
}

// answers waits until a read from memory answers with the error.
func (c *cluster) answers(node string, want error) {
	c.t.Helper()
	require.EventuallyWithT(c.t, func(t *assert.CollectT) {
		_, err := c.Get(node)
		assert.ErrorIs(t, err, want)
	}, patience, 5*time.Millisecond)
}

// configMapOf returns a ConfigMap with our label that holds a record of the Node under any name.
func configMapOf(name, node string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{store.RecordLabel: "true"}},
		Data:       map[string]string{store.DataKey: `{"version": 1, "node": "` + node + `", "labels": {"dedicated": "ci"}}`},
	}
}
