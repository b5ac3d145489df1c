package differential

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/test/harness"
)

// parallel is how many Nodes have something done to them at once.
const parallel = 16

// lag is how long capture may go on standing still, from the part before, when the processes are where they go.
const lag = 100 * time.Millisecond

// world is a control plane with nodekeep, and the Nodes that the script is about.
type world struct {
	nodekeep  *harness.Installation
	admin     kubernetes.Interface
	processes *processes
	subjects  []*subject
	landmark  *landmark
}

func newWorld(t *testing.T, nodes int) *world {
	t.Helper()
	control := harness.ForTest(t, harness.Options{})
	nodekeep, err := harness.Install(t.Context(), control)
	require.NoError(t, err)
	nodekeep.TimeoutSeconds = harness.Patient
	w := &world{nodekeep: nodekeep, admin: nodekeep.Admin, processes: processesOf(nodekeep)}
	for n := range nodes {
		w.subjects = append(w.subjects, w.subject(t, fmt.Sprintf("random-%03d", n)))
	}
	w.landmark = &landmark{subject: *w.subject(t, "landmark")}
	require.NoError(t, w.landmark.register(t.Context()))
	require.NoError(t, w.processes.bring(t.Context(), part{webhook: true, capture: true}))
	return w
}

func (w *world) subject(t *testing.T, name string) *subject {
	t.Helper()
	kubelet, err := kubernetes.NewForConfig(w.nodekeep.Cluster.Kubelet(name))
	require.NoError(t, err)
	return &subject{
		name: name, admin: w.admin, kubelet: kubelet, processes: w.processes,
		wanted: newWanted(allKeys()), open: map[limit]int{}, used: map[limit]int{},
	}
}

// play runs one part: the processes go where it takes them, early Nodes do not wait for that.
func (w *world) play(ctx context.Context, title string, p part) error {
	there := make(chan struct{})
	var brought error
	go func() {
		defer close(there)
		brought = w.processes.bring(ctx, p)
	}()
	failures := make([]error, len(w.subjects))
	w.each(p, true, func(n int) { failures[n] = w.playOne(ctx, title, n, p) })
	<-there
	if brought != nil {
		return brought
	}
	var resumed error
	resuming := make(chan struct{})
	go func() {
		defer close(resuming)
		if w.processes.paused {
			time.Sleep(lag)
			resumed = w.processes.resume()
		}
		if p.pauseCapture {
			resumed = errors.Join(resumed, w.processes.pause())
		}
	}()
	w.each(p, false, func(n int) { failures[n] = w.playOne(ctx, title, n, p) })
	<-resuming
	if resumed != nil {
		return resumed
	}
	return errors.Join(failures...)
}

// each calls do for the early Nodes, or for the others, some at a time.
func (w *world) each(p part, early bool, do func(n int)) {
	var all sync.WaitGroup
	turns := make(chan struct{}, parallel)
	for n := range w.subjects {
		if p.early[n] != early || len(p.operations[n]) == 0 {
			continue
		}
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			do(n)
		})
	}
	all.Wait()
}

// playOne does what the part has for one Node, in order.
func (w *world) playOne(ctx context.Context, title string, n int, p part) error {
	s := w.subjects[n]
	s.tell("%s", title)
	for _, op := range p.operations[n] {
		if err := s.do(ctx, op); err != nil {
			return err
		}
	}
	return nil
}
