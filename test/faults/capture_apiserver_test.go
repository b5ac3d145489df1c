package faults

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// sightseer keeps every state of any Node that it gets to see, and starts over where a watch ends.
type sightseer struct {
	mu   sync.Mutex
	seen []*corev1.Node
	ends context.CancelFunc
	done chan struct{}
}

func sightseeing(t testing.TB) *sightseer {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s := &sightseer{ends: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for ctx.Err() == nil {
			s.look(ctx)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *sightseer) look(ctx context.Context) {
	list, err := nodekeep.Admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range list.Items {
		s.add(&list.Items[i])
	}
	watcher, err := nodekeep.Admin.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if node, ok := event.Object.(*corev1.Node); ok && event.Type != watch.Deleted {
			s.add(node)
		}
	}
}

func (s *sightseer) add(node *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, node)
}

func (s *sightseer) stop() []*corev1.Node {
	s.ends()
	<-s.done
	return s.seen
}

func TestAnAPIServerThatRestartsUnderEditsAndRegistrationsLosesNothing(t *testing.T) {
	// A leader that cannot renew its Lease for 10 s ends, and nobody here would start it again as a Deployment does.
	captureArgs := nodekeep.CaptureArgs
	nodekeep.CaptureArgs = []string{alone}
	defer func() { nodekeep.CaptureArgs = captureArgs }()
	underRules(t)
	all := newPeople(t, "restarted", 8)
	defer all.forget(t)
	all.areRight(t, "NoSchedule")
	seer := sightseeing(t)
	stop := all.work(20 * time.Millisecond)
	time.Sleep(2 * time.Second)
	started := time.Now()
	require.NoError(t, nodekeep.Cluster.RestartAPIServer(t.Context()))
	away := time.Since(started)
	time.Sleep(2 * time.Second)
	stop()
	took := all.areRight(t, "NoSchedule")
	states := seer.stop()
	neverBare(t, states, all.with(map[string]string{worker: ""}))
	t.Logf("the API server was away for %s; %s were all right %s after the last; %d states seen", away.Round(time.Millisecond), all.did(), took.Round(time.Millisecond), len(states))
}
