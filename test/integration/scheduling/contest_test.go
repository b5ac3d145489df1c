package scheduling

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

// nodeCount is how many Nodes a contest registers unless it shows enough with fewer.
const nodeCount = 200

// contest is what came of registering Nodes while the scheduler had pods that must run on none of them.
type contest struct {
	pods      map[string]int // by group
	misplaced map[string]int // by group: those that were bound to one of the Nodes
	verdicts  map[string]int // by group: meanwhile, how often the scheduler gave a (new) reason for leaving a pod unbound
	gated     int            // those of them that name a taint to pods which tolerate all but the gate
	took      time.Duration  // from the first registration until all Nodes were complete
}

// hold registers Nodes that carry labels and taints, under the conditions that arrange makes, and lets the scheduler try all
// the while to bind pods that shun these. A Node without them, and without the gate, would get such pods at once. Where
// nothing can complete the Nodes, what arrange returns brings it back once they are registered.
func hold(t *testing.T, name string, count int, arrange func(t *testing.T) (afterwards func())) contest {
	t.Helper()
	nodes := harness.Names("node", count)
	pods := podsIn(t, name)
	rememberThenDelete(t, nodes)
	afterwards := arrange(t)

	verdicts := watchVerdicts(t, pods)
	stop := keepComing(t, pods, 500)
	started := time.Now()
	eachNode(nodes, func(name string) { nodekeep.Register(t, name) })
	afterwards()
	complete(t, nodes)
	result := contest{took: time.Since(started), pods: map[string]int{}, misplaced: map[string]int{}, verdicts: map[string]int{}}
	for _, v := range verdicts() {
		result.verdicts[v.group]++
		if (v.group == shunsLabel || v.group == shunsProtectedLabel) && strings.Contains(v.reason, "untolerated taint") {
			result.gated++
		}
	}
	stop()

	// The scheduler works, and the Nodes can be scheduled to by pods that tolerate what they carry.
	seeker := withAffinity(pod("seeks-label", corev1.TaintNodeNotReady, tenant, dedicated), dedicated, corev1.NodeSelectorOpIn, "ci")
	_, err := pods.Create(t.Context(), seeker, metav1.CreateOptions{})
	require.NoError(t, err)
	assert.True(t, slices.Contains(nodes, bound(t, pods, seeker.Name)))

	for _, p := range tried(t, pods) {
		group := p.Labels[groupLabel]
		result.pods[group]++
		if slices.Contains(nodes, p.Spec.NodeName) {
			result.misplaced[group]++
		}
	}
	t.Logf("%d Nodes complete after %s; pods %v, misplaced %v; verdicts %v, %d of them met the gate",
		count, result.took.Round(time.Millisecond), result.pods, result.misplaced, result.verdicts, result.gated)
	return result
}

// tried waits until the scheduler has tried each of the pods that shun what Nodes carry, and returns them.
func tried(t *testing.T, pods corev1client.PodInterface) (list []corev1.Pod) {
	t.Helper()
	require.Eventually(t, func() bool {
		all, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: groupLabel})
		if err != nil {
			return false
		}
		list = all.Items
		return !slices.ContainsFunc(list, func(p corev1.Pod) bool { return p.Spec.NodeName == "" && verdict(&p) == "" })
	}, settles, 100*time.Millisecond, "the scheduler must try every pod")
	return list
}

// refusal is why the scheduler left a pod of a group unbound.
type refusal struct{ group, reason string }

// watchVerdicts collects what the scheduler says of the pods that shun what Nodes carry, until the result is called.
func watchVerdicts(t *testing.T, pods corev1client.PodInterface) (stop func() []refusal) {
	t.Helper()
	w, err := pods.Watch(t.Context(), metav1.ListOptions{LabelSelector: groupLabel})
	require.NoError(t, err)
	last := map[string]string{}
	var seen []refusal
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			if p, ok := event.Object.(*corev1.Pod); ok && verdict(p) != "" && verdict(p) != last[p.Name] {
				last[p.Name] = verdict(p)
				seen = append(seen, refusal{p.Labels[groupLabel], last[p.Name]})
			}
		}
	}()
	return func() []refusal { w.Stop(); <-done; return seen }
}
