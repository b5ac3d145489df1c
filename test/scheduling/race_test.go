package scheduling

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// race is one registration of many Nodes against a scheduler with pods that must not run on any of them.
type race struct {
	nodes     int
	pods      int
	verdicts  map[string]int
	misplaced map[string]string // pod -> Node
	took      time.Duration
}

func run200(t *testing.T, prefix string, arrange func()) race {
	t.Helper()
	nodes := names(prefix, 200)
	namespace(t, prefix)
	remembered(t, nodes)
	arrange()
	eachNode(nodes, 8, func(name string) { deleteNode(t, name) })

	stop := keepComing(t, prefix, 800, 5*time.Millisecond)
	started := time.Now()
	eachNode(nodes, 4, func(name string) { register(t, name, metav1.CreateOptions{}) })
	reg := time.Since(started)
	complete(t, nodes)
	took := time.Since(started)
	stop()
	t.Log("registered", reg, "complete", took)

	result := race{nodes: len(nodes), took: took, verdicts: map[string]int{}, misplaced: map[string]string{}}
	p := onlyWhere(toleratingNotReady(pod("seeks-isolated")), isolated, corev1.NodeSelectorOpExists)
	_, err := nodekeep.Admin.CoreV1().Pods(prefix).Create(t.Context(), p, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Log("seeker on", bound(t, prefix, p.Name))
	require.Eventually(t, func() bool {
		list, err := nodekeep.Admin.CoreV1().Pods(prefix).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		for _, p := range list.Items {
			if verdict(&p) == "" && p.Spec.NodeName == "" {
				return false
			}
		}
		return true
	}, settles, 100*time.Millisecond, "the scheduler must have tried every pod")
	t.Log("all tried", time.Since(started))
	list, err := nodekeep.Admin.CoreV1().Pods(prefix).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, p := range list.Items {
		if !strings.HasPrefix(p.Name, "shuns") {
			continue
		}
		result.pods++
		result.verdicts[verdict(&p)]++
		if p.Spec.NodeName != "" {
			result.misplaced[p.Name] = p.Spec.NodeName
		}
	}
	return result
}

func TestUp(t *testing.T) {
	r := run200(t, "up", func() {})
	t.Logf("%+v", r)
}

func TestWebhookDown(t *testing.T) {
	r := run200(t, "down", func() { require.NoError(t, nodekeep.StopWebhook()) })
	t.Logf("%+v", r)
}

func TestControl(t *testing.T) {
	r := run200(t, "control", func() {
		require.NoError(t, nodekeep.Admin.CoreV1().ConfigMaps("nodekeep-system").Delete(t.Context(), "nodekeep-gate", metav1.DeleteOptions{}))
		time.Sleep(3 * time.Second)
	})
	t.Logf("%+v", r)
}
