//go:build e2e

package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// witness watches this run's Nodes as a scheduler would, and notes each moment in which one could have been given a workload without
// carrying what it must: not behind the gate, and something lacking.
type witness struct {
	mu    sync.Mutex
	wants map[string]requirer
	bare  []string
	seen  int
}

// watchNodes starts a witness that lives as long as the test.
func watchNodes(t *testing.T) *witness {
	t.Helper()
	w := &witness{wants: map[string]requirer{}}
	factory := informers.NewSharedInformerFactoryWithOptions(installed.admin, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = mark + "=" + installed.run }))
	informer := factory.Core().V1().Nodes().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { w.look(object) },
		UpdateFunc: func(_, object any) { w.look(object) },
	})
	require.NoError(t, err)
	factory.Start(t.Context().Done())
	synced := factory.WaitForCacheSync(t.Context().Done())
	require.NotContains(t, synced, false)
	return w
}

// expect says what a Node must carry from its next object on.
func (w *witness) expect(node string, want requirer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wants[node] = want
}

func (w *witness) look(object any) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	want, ok := w.wants[node.Name]
	if !ok {
		return
	}
	w.seen++
	if lacking := want.lacks(node); lacking != "" && !behindGate(node) {
		w.bare = append(w.bare, fmt.Sprintf("%s node %s (%s, version %s) could have been given a workload without %s", time.Now().Format("15:04:05.000"), node.Name, node.UID, node.ResourceVersion, lacking))
	}
}

// sawNothingBare is the promise.
func (w *witness) sawNothingBare(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.NotZero(t, w.seen, "the watch must have shown something")
	require.Empty(t, w.bare, "no Node may be open for workloads without what it should carry")
}
