package verification

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

// fleet returns verified Nodes of a pool of their own.
func fleet(t *testing.T, prefix string, count int) (names []string) {
	t.Helper()
	for i := range count {
		names = append(names, fmt.Sprintf("%s-%d", prefix, i))
		register(t, names[i], honest)
	}
	for _, name := range names {
		node := waitOpen(t, name, 1)
		assert.Equal(t, verify.Label, progress(node).Label)
	}
	return names
}

// versions are those of Nodes that a watch has shown, one after another.
type versions struct {
	mu    sync.Mutex
	nodes []*corev1.Node
}

// watchFrom watches all Nodes from now on, until the test ends.
func watchFrom(t *testing.T) *versions {
	t.Helper()
	list, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	w, err := nodekeep.Admin.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	v := &versions{}
	for i := range list.Items {
		v.nodes = append(v.nodes, &list.Items[i])
	}
	go func() {
		for event := range w.ResultChan() {
			if node, ok := event.Object.(*corev1.Node); ok {
				v.mu.Lock()
				v.nodes = append(v.nodes, node)
				v.mu.Unlock()
			}
		}
	}()
	return v
}

// closed returns how many of some Nodes were held at one time, at most, up to the present version of each.
func (v *versions) closed(t *testing.T, names []string) (limit int) {
	t.Helper()
	last := map[string]string{}
	for _, name := range names {
		last[name] = nodekeep.Node(t, name).ResourceVersion
	}
	require.Eventually(t, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return !slices.ContainsFunc(names, func(name string) bool {
			return !slices.ContainsFunc(v.nodes, func(node *corev1.Node) bool { return node.Name == name && node.ResourceVersion == last[name] })
		})
	}, settles, 20*time.Millisecond, "the watch must show the present state")
	v.mu.Lock()
	defer v.mu.Unlock()
	held := map[string]bool{}
	for _, node := range v.nodes {
		if delete(held, node.Name); slices.Contains(names, node.Name) && closedNow(node) {
			held[node.Name] = true
		}
		limit = max(limit, len(held))
	}
	return limit
}

func closedNow(node *corev1.Node) bool { return held(node) }

func TestANodeWhoseLabelWasRemovedIsCheckedAgain(t *testing.T) {
	warm(t)
	names := fleet(t, "unlabelled", 2)
	history := states(t, names[0])
	nodekeep.MustKubectl(t, "label", "node", names[0], verify.Label+"-")
	nodekeep.WaitEvent(t, names[0], "VerificationAgain")
	waitOpen(t, names[0], 2)
	closed := 0
	for _, node := range history() {
		if held(node) {
			closed++
			assert.Equal(t, []corev1.Taint{{Key: verify.Taint, Value: "recheck", Effect: corev1.TaintEffectNoSchedule}}, node.Spec.Taints, "as the shipped policies allow")
			assert.Empty(t, node.Labels[verify.Label])
		}
	}
	assert.Positive(t, closed)
	assert.Equal(t, 1, progress(nodekeep.Node(t, names[1])).Round)
}

func TestLabelsThatAreRemovedAtOnceCloseOneNodeAtATimeAlsoAcrossARestart(t *testing.T) {
	warm(t)
	names := fleet(t, "stripped", 6)
	require.NoError(t, nodekeep.StopVerify())
	nodekeep.MustKubectl(t, "label", "nodes", "-l", selected+"=checked", verify.Label+"-")
	seen := watchFrom(t)
	require.NoError(t, nodekeep.StartVerify(background()))
	harness.Eventually(t, func() bool {
		return slices.ContainsFunc(names, func(name string) bool { return progress(nodekeep.Node(t, name)).Round == 2 })
	}, settles, 50*time.Millisecond)
	require.NoError(t, nodekeep.KillVerify())
	require.NoError(t, nodekeep.StartVerify(background()))
	for _, name := range names {
		waitOpen(t, name, 2)
	}
	assert.Equal(t, 1, seen.closed(t, names))
}

func TestTheLastNodeThatTakesPodsStaysOpenAndSaysWhy(t *testing.T) {
	warm(t)
	names := fleet(t, "last", 1)
	list, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, node := range list.Items {
		if node.Name != names[0] {
			nodekeep.MustKubectl(t, "cordon", node.Name)
		}
	}
	nodekeep.MustKubectl(t, "label", "node", names[0], verify.Label+"-")
	nodekeep.WaitEvent(t, names[0], "RecheckWaits")
	assert.False(t, held(nodekeep.Node(t, names[0])))
	for _, node := range list.Items {
		if node.Name != names[0] {
			nodekeep.MustKubectl(t, "uncordon", node.Name)
		}
	}
	waitOpen(t, names[0], 2)
}

func TestAClientThatMayPatchNodesHasANodeCheckedAgainByAnAnnotationAndItsKubeletCannot(t *testing.T) {
	warm(t)
	names := fleet(t, "asked", 2)
	patch := func(value string) []byte {
		return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, verify.RequestAnnotation, value)
	}
	_, err := nodekeep.Kubelet(t, names[0]).CoreV1().Nodes().Patch(t.Context(), names[0], types.MergePatchType, patch("forged"), metav1.PatchOptions{})
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.ErrorContains(t, err, "kubelets cannot add, change or remove annotations under nodekeep.dev/")

	// As docs/verification.md says.
	nodekeep.MustKubectl(t, "create", "clusterrole", "ask-for-checks", "--verb=get,patch", "--resource=nodes")
	nodekeep.MustKubectl(t, "create", "clusterrolebinding", "ask-for-checks", "--clusterrole=ask-for-checks", "--user=repair-tool")
	t.Cleanup(func() {
		nodekeepKubectl("delete", "clusterrole,clusterrolebinding", "ask-for-checks")
	})
	config := rest.CopyConfig(nodekeep.Cluster.Admin())
	config.Impersonate = rest.ImpersonationConfig{UserName: "repair-tool"}
	tool, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	for i, value := range []string{"2026-01-01T00:00:00Z", ""} {
		require.Eventually(t, func() bool {
			_, err = tool.CoreV1().Nodes().Patch(t.Context(), names[0], types.MergePatchType, patch(value), metav1.PatchOptions{})
			return err == nil
		}, settles, 50*time.Millisecond, "%v", &err)
		node := waitOpen(t, names[0], i+2)
		assert.Equal(t, value, node.Annotations[verify.RequestAnnotation], "it is left alone")
	}

	// A process that starts later does not check it again, and neither is the annotation kept for the next Node of this name.
	require.NoError(t, nodekeep.StopVerify())
	require.NoError(t, nodekeep.StartVerify(background()))
	register(t, "asked-later", honest)
	waitOpen(t, "asked-later", 1)
	assert.Equal(t, 3, progress(nodekeep.Node(t, names[0])).Round)
	assert.Equal(t, 1, progress(nodekeep.Node(t, names[1])).Round)
	nodekeep.DeleteNode(t, names[0])
	nodekeep.RegisterNode(t, harness.RegistrationWith(names[0], map[string]string{selected: "checked"}))
	assert.NotContains(t, waitOpen(t, names[0], 1).Annotations, verify.RequestAnnotation)
}

// The shipped policies know one label, so under another one no Node can be opened. That shows when the controller goes by it.
func TestAnotherLabelInThePolicyClosesNoNode(t *testing.T) {
	warm(t)
	names := fleet(t, "relabelled", 3)
	seen := watchFrom(t)
	prev := harness.Series(t, nodekeep.MetricsURL("verify"), `nodekeep_controller_errors_total{controller="verify",kind="failure"}`)
	require.NoError(t, nodekeep.WritePolicy(t.Context(), strings.Replace(verifying, "verify:\n", "verify:\n    label: example.com/checked\n", 1)))
	t.Cleanup(func() { require.NoError(t, nodekeep.WritePolicy(background(), verifying)) })
	register(t, "relabelled-new", honest)
	harness.Eventually(t, func() bool {
		return harness.Series(t, nodekeep.MetricsURL("verify"), `nodekeep_controller_errors_total{controller="verify",kind="failure"}`) > prev
	}, settles, 50*time.Millisecond, "it must try to open the Node with the other label")
	for _, name := range names { // the controller looks at each of them
		nodekeep.MustKubectl(t, "annotate", "node", name, "example.com/note=a")
	}
	require.NoError(t, nodekeep.StopVerify())
	require.NoError(t, nodekeep.StartVerify(background()))
	failures := func() float64 {
		return harness.Series(t, nodekeep.MetricsURL("verify"), `nodekeep_controller_errors_total{controller="verify",kind="failure"}`)
	}
	require.Eventually(t, func() bool { return failures() > 0 }, settles, 50*time.Millisecond, "also after a restart")
	assert.Zero(t, seen.closed(t, names))
	require.NoError(t, nodekeep.WritePolicy(t.Context(), verifying))
	waitOpen(t, "relabelled-new", 1)
	for _, name := range names {
		assert.Equal(t, 1, progress(nodekeep.Node(t, name)).Round)
	}
	assert.Zero(t, seen.closed(t, names), "nor does the change back")
}
