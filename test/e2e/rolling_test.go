//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// registrations is a load of Nodes that are deleted and register again, all of them known.
type registrations struct {
	stop chan struct{}
	all  sync.WaitGroup

	mu      sync.Mutex
	created int
	slowest time.Duration
	failed  []string
	missed  []string // gated instead of restored: safe, and late
	bare    []string
}

// registerAllTheWhile starts so many kubelets with known Nodes.
func registerAllTheWhile(t *testing.T, kind string, kubelets int) *registrations {
	t.Helper()
	r := &registrations{stop: make(chan struct{})}
	var list []*kubelet
	for n := range kubelets {
		k, _ := known(t, fmt.Sprintf("%s-%d", kind, n), ordinary())
		startedGated(t, k)
		list = append(list, k)
	}
	for _, k := range list {
		r.all.Go(func() {
			for {
				select {
				case <-r.stop:
					return
				case <-time.After(50 * time.Millisecond):
				}
				r.register(t, k)
			}
		})
	}
	return r
}

func (r *registrations) register(t *testing.T, k *kubelet) {
	err := installed.admin.CoreV1().Nodes().Delete(t.Context(), k.name, metav1.DeleteOptions{})
	if err != nil && t.Context().Err() == nil {
		r.note(func() { r.failed = append(r.failed, err.Error()) })
		return
	}
	begun := time.Now()
	node, err := k.client.CoreV1().Nodes().Create(t.Context(), k.node(), metav1.CreateOptions{})
	took := time.Since(begun)
	stamp := begun.Format("15:04:05.000 ") + k.name
	r.note(func() {
		r.created++
		r.slowest = max(r.slowest, took)
		switch {
		case err != nil:
			r.failed = append(r.failed, stamp+": "+err.Error())
		case ordinary().lacks(node) == "":
		case behindGate(node):
			r.missed = append(r.missed, fmt.Sprintf("%s (%s)", stamp, took))
		default:
			r.bare = append(r.bare, stamp)
		}
	})
}

func (r *registrations) note(key func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key()
}

// end stops the load and says what became of it.
func (r *registrations) end(t *testing.T, phase string) {
	t.Helper()
	close(r.stop)
	r.all.Wait()
	t.Logf("%d registrations during %s, the slowest took %s", r.created, phase, r.slowest.Round(time.Millisecond))
	require.NotZero(t, r.created)
	assert.Empty(t, r.failed, "registrations and deletions that failed")
	assert.Empty(t, r.bare, "Nodes that joined bare and open for workloads")
	assert.Empty(t, r.missed, "CREATEs that were not restored at once; capture had to")
}

func missesNothingWhileTheWebhookRestarts(t *testing.T) {
	w := watchNodes(t)
	load := registerAllTheWhile(t, "rolling", 4)
	for n := range 4 {
		w.expect(newKubelet(t, fmt.Sprintf("rolling-%d", n)).name, ordinary())
	}
	begun := time.Now()
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		"kubectl.kubernetes.io/restartedAt": begun.Format(time.RFC3339),
	}}}}})
	require.NoError(t, err)
	for _, name := range []string{webhookName, captureName} {
		_, err = installed.admin.AppsV1().Deployments(namespace).Patch(t.Context(), name, types.StrategicMergePatchType, body, metav1.PatchOptions{})
		require.NoError(t, err)
	}
	for _, name := range []string{webhookName, captureName} {
		installed.rolledOut(t, name)
	}
	load.end(t, fmt.Sprintf("a rolling restart of %s", time.Since(begun).Round(time.Second)))
	w.sawNothingBare(t)
}
