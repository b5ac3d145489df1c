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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// State is a Node as a watcher saw it, and when.
type State struct {
	*corev1.Node
	Time time.Time
}

// Watcher keeps every state of every Node that anybody could see.
type Watcher struct {
	mu     sync.Mutex
	states []State
	byName map[string][]State
	stop   func()
}

// witness is a Node by whose changes a watcher knows how far it is.
const witness = "watch-witness"

// WatchNodes watches all Nodes from now on, until Stop or the end of the test.
func (i *Installation) WatchNodes(t testing.TB) *Watcher {
	t.Helper()
	nodes := i.Admin.CoreV1().Nodes()
	if _, err := nodes.Create(t.Context(), Registration(witness), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	w := &Watcher{byName: map[string][]State{}}
	began, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for start := sync.OnceFunc(func() { close(began) }); ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			w.watch(ctx, i, start)
		}
	}()
	<-began
	w.stop = sync.OnceFunc(func() {
		const key = "tests.example.com/moment"
		moment := fmt.Sprint(time.Now().UnixNano())
		if t.Context().Err() == nil { // the test still wants all that is stored so far
			i.MergeNode(t, witness, map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: moment}}})
			require.Eventually(t, func() bool {
				return slices.ContainsFunc(w.States(witness), func(s State) bool { return s.Annotations[key] == moment })
			}, Settles, 5*time.Millisecond, "the watch must arrive at this moment")
		}
		cancel()
		<-ended
	})
	t.Cleanup(w.stop)
	return w
}

// watch watches until the watch ends: an API server may restart. Then the states that it finds are the next ones.
func (w *Watcher) watch(ctx context.Context, i *Installation, start func()) {
	nodes := i.Admin.CoreV1().Nodes()
	list, err := nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	events, err := nodes.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return
	}
	defer events.Stop()
	start()
	if len(w.states) > 0 {
		for n := range list.Items {
			w.add(&list.Items[n])
		}
	}
	for event := range events.ResultChan() {
		if node, ok := event.Object.(*corev1.Node); ok && event.Type != watch.Deleted {
			w.add(node)
		}
	}
}

func (w *Watcher) add(node *corev1.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	state := State{node, time.Now()}
	w.states, w.byName[node.Name] = append(w.states, state), append(w.byName[node.Name], state)
}

// Stop ends the watch once all that is stored so far has arrived, and returns every state, oldest first.
func (w *Watcher) Stop() []State {
	w.stop()
	return slices.Clone(w.states)
}

// States returns the states of a Node that were seen, oldest first.
func (w *Watcher) States(name string) []State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.byName[name])
}
