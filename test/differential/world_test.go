package differential

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/random"
)

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
	return &subject{
		name: name, admin: w.admin, kubelet: w.nodekeep.Kubelet(t, name), processes: w.processes,
		wanted: newWanted(allKeys()), open: map[limit]int{}, used: map[limit]int{},
	}
}

// play runs one part: the processes go where it takes them, early Nodes do not wait for that.
func (w *world) play(ctx context.Context, title string, p part) error {
	var bringing, resuming errgroup.Group
	bringing.Go(func() error { return w.processes.bring(ctx, p) })
	early := w.forEach(p, true, func(n int) error { return w.playOne(ctx, title, n, p) })
	if err := bringing.Wait(); err != nil {
		return err
	}
	resuming.Go(func() (err error) {
		if w.processes.paused {
			time.Sleep(lag)
			err = w.processes.resume()
		}
		if p.pauseCapture {
			err = errors.Join(err, w.processes.pause())
		}
		return err
	})
	rest := w.forEach(p, false, func(n int) error { return w.playOne(ctx, title, n, p) })
	return errors.Join(resuming.Wait(), early, rest)
}

// forEach calls do for the early Nodes, or for the others, some at a time.
func (w *world) forEach(p part, early bool, fn func(n int) error) error {
	var nodes []int
	for n := range w.subjects {
		if p.early[n] == early && len(p.operations[n]) > 0 {
			nodes = append(nodes, n)
		}
	}
	return random.ForEach(nodes, fn)
}

// playOne does what the part has for one Node, in order.
func (w *world) playOne(ctx context.Context, title string, n int, p part) error {
	s := w.subjects[n]
	s.tell("%s", title)
	for _, op := range p.operations[n] {
		if err := s.run(ctx, op); err != nil {
			return err
		}
	}
	return nil
}
