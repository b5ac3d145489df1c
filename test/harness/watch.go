package harness

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// witness is a Node whose annotation shows that a watch has arrived at a moment.
const witness, moment = "watch-witness", "tests.example.com/moment"

// watched is what a client saw of Nodes, in order.
type watched struct {
	mu     sync.Mutex
	states []*corev1.Node
}

// WatchNodes keeps every state that a client could see of any Node, from now on. It watches again where a watch ends. The function
// that it returns hands over the states, once all that is stored so far has arrived.
func (i *Installation) WatchNodes(t testing.TB) (stop func() []*corev1.Node) {
	t.Helper()
	if _, err := i.Admin.CoreV1().Nodes().Get(t.Context(), witness, metav1.GetOptions{}); err != nil {
		i.Register(t, witness)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	w, ended, began := &watched{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for start := sync.OnceFunc(func() { close(began) }); ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			w.follow(ctx, i, start)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	<-began
	return func() []*corev1.Node {
		t.Helper()
		now := fmt.Sprint(time.Now().UnixNano())
		i.Merge(t, witness, map[string]any{"annotations": map[string]string{moment: now}})
		require.Eventually(t, func() bool { return w.saw(now) }, Settles, 5*time.Millisecond, "the watch must arrive at this moment")
		cancel()
		<-ended
		return w.states
	}
}

// follow lists and watches until the watch ends.
func (w *watched) follow(ctx context.Context, i *Installation, start func()) {
	list, err := i.Admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	watcher, err := i.Admin.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return
	}
	defer watcher.Stop()
	start()
	for n := range list.Items {
		w.add(&list.Items[n])
	}
	for event := range watcher.ResultChan() {
		if node, ok := event.Object.(*corev1.Node); ok && event.Type != watch.Deleted {
			w.add(node)
		}
	}
}

func (w *watched) add(node *corev1.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states = append(w.states, node)
}

func (w *watched) saw(now string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.states, func(node *corev1.Node) bool { return node.Name == witness && node.Annotations[moment] == now })
}
