package harness

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// AgeNode makes a Node one that registered longer ago. No client can do so: the API server sets the time. So etcd is written, and the API server
// shows the change to all who watch.
func (i *Installation) AgeNode(t testing.TB, name string, by time.Duration) {
	t.Helper()
	key, codec := []byte("/registry/minions/"+name), protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	older := func() bool {
		var found struct {
			Kvs []struct {
				Value       []byte
				ModRevision string `json:"mod_revision"`
			}
		}
		require.NoError(t, i.Cluster.etcd(t.Context(), "/v3/kv/range", map[string]any{"key": key}, &found))
		require.Len(t, found.Kvs, 1, "etcd must have Node %s", name)
		node := &corev1.Node{}
		_, kind, err := codec.Decode(found.Kvs[0].Value, nil, node)
		require.NoError(t, err)
		node.SetGroupVersionKind(*kind)
		node.CreationTimestamp = metav1.NewTime(node.CreationTimestamp.Add(-by))
		var value bytes.Buffer
		require.NoError(t, codec.Encode(node, &value))
		var answer struct{ Succeeded bool }
		require.NoError(t, i.Cluster.etcd(t.Context(), "/v3/kv/txn", map[string]any{
			"compare": []any{map[string]any{"key": key, "target": "MOD", "mod_revision": found.Kvs[0].ModRevision}},
			"success": []any{map[string]any{"request_put": map[string]any{"key": key, "value": value.Bytes()}}},
		}, &answer))
		return answer.Succeeded
	}
	prev := i.Node(t, name).CreationTimestamp
	Eventually(t, older, Settles, 20*time.Millisecond, "another client writes Node %s again and again", name)
	Eventually(t, func() bool { return i.Node(t, name).CreationTimestamp.Before(&prev) }, Settles, 20*time.Millisecond)
}
