package local

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// versions are those of Nodes that a watch has shown, but for deletions.
type versions struct {
	mu    sync.Mutex
	nodes []*corev1.Node
}

// watchesNode keeps every version of a Node until the test ends, from the one that is there now.
func (c *cluster) watchesNode(t *testing.T, name string) *versions {
	t.Helper()
	return c.watches(t, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
}

// watches is [cluster.watchesNode] for the Nodes that the options select.
func (c *cluster) watches(t *testing.T, options metav1.ListOptions) *versions {
	t.Helper()
	nodes := c.Admin.CoreV1().Nodes()
	list, err := nodes.List(t.Context(), options)
	require.NoError(t, err)
	v := &versions{}
	for _, node := range list.Items {
		v.nodes = append(v.nodes, &node)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	options.ResourceVersion = list.ResourceVersion
	watcher, err := nodes.Watch(ctx, options)
	require.NoError(t, err)
	go func() {
		for event := range watcher.ResultChan() {
			if node, ok := event.Object.(*corev1.Node); ok && event.Type != watch.Deleted {
				v.mu.Lock()
				v.nodes = append(v.nodes, node)
				v.mu.Unlock()
			}
		}
	}()
	return v
}

// upTo waits until the watch has shown this version of the Node, and returns all that it has shown by then.
func (v *versions) upTo(t *testing.T, node *corev1.Node) (shown []*corev1.Node) {
	t.Helper()
	require.Eventually(t, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		shown = v.nodes
		return slices.ContainsFunc(shown, func(item *corev1.Node) bool { return item.ResourceVersion == node.ResourceVersion })
	}, settles, 20*time.Millisecond, "the watch must show version %s of node %s", node.ResourceVersion, node.Name)
	return shown
}
