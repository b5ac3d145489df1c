package verification

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

// rebootable registers a Node whose profile checks it again after a reboot, and waits until it was verified.
func rebootable(t *testing.T, name string) *kubelet {
	t.Helper()
	k := registerWith(t, name, map[string]string{selected: "reboots"}, honest)
	k.goes(t.Context(), false, "boot-1")
	waitFor(t, name, "open", func(node *corev1.Node) bool { return !held(node) && progress(node).BootID == "boot-1" })
	return k
}

// states records what the API server's watch says of a Node, until the test ends.
func states(t *testing.T, name string) (base func() []*corev1.Node) {
	t.Helper()
	w, err := nodekeep.Admin.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: nodekeep.Node(t, name).ResourceVersion})
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	var mu sync.Mutex
	var events []watch.Event
	go func() {
		for event := range w.ResultChan() {
			mu.Lock()
			events = append(events, event)
			mu.Unlock()
		}
	}()
	return func() (nodes []*corev1.Node) {
		last := nodekeep.Node(t, name).ResourceVersion
		harness.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			nodes = nil
			for _, event := range events {
				node, ok := event.Object.(*corev1.Node)
				require.True(t, ok && event.Type == watch.Modified, "%v", event)
				if nodes = append(nodes, node); node.ResourceVersion == last {
					return true
				}
			}
			return false
		}, settles, 20*time.Millisecond)
		return nodes
	}
}

func ready(node *corev1.Node) bool { return verify.NodeOf(node).Ready }

func TestANodeThatRebootsIsVerifiedAgainBeforeAPodCanBeBoundAndOneWhoseKubeletRestartsIsNot(t *testing.T) {
	warm(t)
	k := rebootable(t, "reboots")
	history := states(t, "reboots")

	// The kubelet restarts: not Ready for a moment, the same boot.
	k.reportWith(failing) // a check would show
	k.goes(t.Context(), true, "boot-1")
	waitFor(t, "reboots", "held while it is not Ready", held)
	k.goes(t.Context(), false, "boot-1")
	node := waitFor(t, "reboots", "open", func(node *corev1.Node) bool { return !held(node) && ready(node) })
	assert.Equal(t, 1, progress(node).Round, "it was not checked")
	assert.Equal(t, "true", node.Labels[verify.Label])

	// It reboots, while a workload waits for it, and while the controller is killed.
	k.goes(t.Context(), true, "boot-1")
	waitFor(t, "reboots", "held while it is not Ready", held)
	pods := nodekeep.Admin.CoreV1().Pods("default")
	early := workload("early-reboot")
	early.Spec.NodeSelector = map[string]string{selected: "reboots"}
	_, err := pods.Create(t.Context(), early, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		nodekeepKubectl("delete", "pod", "early-reboot", "--grace-period=0", "--force", "--ignore-not-found")
	})
	require.NoError(t, nodekeep.KillVerify())
	k.goes(t.Context(), false, "boot-2")
	waitFor(t, "reboots", "seen as Ready by the controllers", func(node *corev1.Node) bool { return ready(node) && len(node.Spec.Taints) == 1 })
	require.NoError(t, nodekeep.StartVerify(background()))
	waitFor(t, "reboots", "checked", func(node *corev1.Node) bool { return progress(node).Attempts >= 1 })
	bound, err := pods.Get(t.Context(), "early-reboot", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Empty(t, bound.Spec.NodeName, "a workload was bound to a Node that rebooted and did not pass")
	k.reportWith(honest)
	waitOpen(t, "reboots", 2)
	require.Eventually(t, func() bool {
		bound, err := pods.Get(t.Context(), "early-reboot", metav1.GetOptions{})
		return err == nil && bound.Spec.NodeName == "reboots"
	}, settles, 50*time.Millisecond, "then the workload is bound")
	for _, node := range history() {
		if ready(node) && node.Status.NodeInfo.BootID == "boot-2" && !held(node) {
			assert.Equal(t, 2, progress(node).Round, "a state in which Pods could be bound before the checks passed: %v", node.Spec.Taints)
		}
	}
}

func TestARebootThatIsNeverSeenAsNotReadyIsVerifiedToo(t *testing.T) {
	warm(t)
	k := rebootable(t, "swift")
	k.goes(t.Context(), false, "boot-2")
	waitOpen(t, "swift", 2)
}

func TestATaintThatAKubeletRegistersWithIsNoReboot(t *testing.T) {
	warm(t)
	forged := harness.RegistrationWith("forged-reboot", map[string]string{selected: "reboots"})
	forged.Spec.Taints = []corev1.Taint{{Key: verify.Taint, Value: "reboot-0123456789abcdef-0123456789abcdef", Effect: corev1.TaintEffectNoSchedule}}
	nodekeep.RegisterNode(t, forged)
	k := play(t, "forged-reboot", failing)
	node := waitFor(t, "forged-reboot", "checked", func(node *corev1.Node) bool { return progress(node).Attempts >= 1 })
	assert.True(t, held(node))
	k.reportWith(honest)
	waitOpen(t, "forged-reboot", 1)
}

func TestAPowerCutOfAThirdOfTheNodesVerifiesNoneAgain(t *testing.T) {
	warm(t)
	kubelets := map[string]*kubelet{}
	for i := range 10 {
		name := fmt.Sprintf("power-%d", i)
		kubelets[name] = rebootable(t, name)
		if i < 3 {
			kubelets[name].reportWith(failing) // a check would show
		}
	}
	cut := []string{"power-0", "power-1", "power-2"}
	for _, name := range cut {
		kubelets[name].goes(t.Context(), true, "boot-1")
	}
	harness.Eventually(t, func() bool {
		return harness.Series(t, nodekeep.MetricsURL("verify"), "nodekeep_verify_outage") == 1
	}, settles, 50*time.Millisecond)
	for _, name := range cut {
		waitFor(t, name, "not held", func(node *corev1.Node) bool { return !held(node) })
	}
	for _, name := range cut {
		kubelets[name].goes(context.Background(), false, "boot-2")
	}
	for _, name := range cut {
		node := waitFor(t, name, "open", func(node *corev1.Node) bool {
			return !held(node) && ready(node) && progress(node).BootID == "boot-2" && progress(node).Last.Result == verify.VerdictRebooted
		})
		assert.Equal(t, "true", node.Labels[verify.Label])
		kubelets[name].reportWith(honest)
	}
	list, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, node := range list.Items {
		if strings.HasPrefix(node.Name, "power-") {
			assert.False(t, held(&node), node.Name)
		}
	}
	require.NoError(t, nodekeep.StopVerify()) // the outage ends with the process, once all are back
	require.NoError(t, nodekeep.StartVerify(background()))
}
