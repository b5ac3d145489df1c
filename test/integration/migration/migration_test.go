package migration

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

const (
	oldKey = "gpu.model" // a dotted key
	newKey = "example.com/gpu.model"

	allNodes       = 500
	awayNodes      = 50
	daemonValue    = "rtx" // one Node in five
	deploymentPods = 5

	// settles is how long anything may take by itself in this test on a busy machine.
	settles = 4 * time.Minute
)

func migrating(phase string) string {
	return fmt.Sprintf("labels: {migrations: [{from: %s, to: %s, phase: %s}]}\n", oldKey, newKey, phase)
}

func valueOf(number int) string {
	if number%5 == 0 {
		return daemonValue
	}
	return "a100"
}

// eventuallyKilled kills capture at random moments for a while, then leaves it alone and waits until all is so.
func eventuallyKilled(t *testing.T, current func() bool, message string) {
	t.Helper()
	kills := 0
	for deadline := time.Now().Add(12 * time.Second); time.Now().Before(deadline); kills++ {
		time.Sleep(500*time.Millisecond + rand.N(1500*time.Millisecond))
		require.NoError(t, nodekeep.Cluster.Process("nodekeep-capture").Kill())
		require.NoError(t, nodekeep.StartCapture(t.Context()))
	}
	require.Eventually(t, current, settles, 200*time.Millisecond, message)
	t.Logf("capture was killed %d times: %s", kills, message)
}

func nodes(t *testing.T) []corev1.Node {
	t.Helper()
	list, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "test=migration"})
	require.NoError(t, err)
	return list.Items
}

// recorded returns what the records of all Nodes have of a key, by Node.
func recorded(t *testing.T, key string) map[string]string {
	t.Helper()
	list, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: store.RecordLabel})
	require.NoError(t, err)
	found := map[string]string{}
	for _, cm := range list.Items {
		r, err := record.Decode([]byte(cm.Data[store.DataKey]))
		if value, ok := r.Items()[key]; err == nil && ok {
			found[r.Node] = value
		}
	}
	return found
}

func TestAKeyIsRenamedOn500NodesWhileWorkloadsSelectOnIt(t *testing.T) {
	names := harness.Names("migrated", allNodes)
	absent, local := names[:awayNodes], names[awayNodes:]
	want := map[string]string{}
	for n, name := range names {
		want[name] = valueOf(n)
	}
	started := time.Now()
	pos := func(subject string) { t.Logf("%s after %s", subject, time.Since(started).Round(time.Second)) }
	harness.Parallel(names, 8, func(name string) {
		nodekeep.Register(t, name)
		nodekeep.Label(t, name, map[string]string{oldKey: want[name], "test": "migration"})
	})
	harness.Eventually(t, func() bool { return maps.Equal(recorded(t, oldKey), want) }, settles, time.Second, "every record has the label")
	harness.Parallel(absent, 8, func(name string) { nodekeep.DeleteNode(t, name) })
	pos("all Nodes are recorded")

	watched := nodekeep.WatchNodes(t)
	deleted := playKubelets(t)
	startWorkloads(t, oldKey)
	agents := 0
	for _, name := range local {
		if want[name] == daemonValue {
			agents++
		}
	}
	harness.Eventually(t, func() bool { return len(podsOf(t)) == agents+deploymentPods }, settles, time.Second, "all Pods are bound")
	prev := podsOf(t)
	pos("all Pods are bound")

	answer := nodekeep.Command(t, "", "", "report", "migrations", oldKey+"="+newKey)
	assert.Zero(t, answer.Code, answer.ErrOut)
	for _, says := range []string{"DaemonSet", "default/agent", "Deployment", "default/training", " 360 ", " 90 ", " 40 ", " 10 "} { // of both values, here and away
		assert.Contains(t, answer.Out, says)
	}

	usePolicy(t, migrating("both"))
	eventuallyKilled(t, func() bool {
		return !slices.ContainsFunc(nodes(t), func(n corev1.Node) bool { return n.Labels[newKey] != want[n.Name] || n.Labels[oldKey] != want[n.Name] })
	}, "every Node has both keys")
	assert.Empty(t, deleted.all(), "no Pod was deleted")
	assert.Equal(t, slices.Sorted(maps.Keys(prev)), slices.Sorted(maps.Keys(podsOf(t))))
	pos("every Node has both keys")

	usePolicy(t, migrating("new"))
	answer = nodekeep.Command(t, "", "", "accept", "migration", oldKey+"="+newKey, "--yes")
	assert.Equal(t, 1, answer.Code, "a DaemonSet selects on the old key")
	assert.Contains(t, answer.ErrOut, "default/agent")
	assert.False(t, slices.ContainsFunc(nodes(t), func(n corev1.Node) bool { _, ok := n.Labels[oldKey]; return !ok }), "the policy alone removes nothing")

	moveWorkloads(t, newKey)
	harness.Eventually(t, func() bool {
		pods := podsOf(t)
		return len(pods) == agents+deploymentPods && !slices.ContainsFunc(slices.Collect(maps.Values(pods)), func(pod corev1.Pod) bool {
			return strings.Contains(pod.Spec.String(), oldKey) && !strings.Contains(pod.Spec.String(), newKey)
		})
	}, settles, time.Second, "the controllers have replaced all Pods")
	prev, replaced := podsOf(t), len(deleted.all())
	pos("the operator has moved the workloads")

	harness.Eventually(t, func() bool {
		answer = nodekeep.Command(t, "", "", "accept", "migration", oldKey+"="+newKey, "--yes")
		return answer.Code == 0
	}, settles, time.Second, "nothing selects on the old key any more")
	eventuallyKilled(t, func() bool {
		return !slices.ContainsFunc(nodes(t), func(n corev1.Node) bool {
			_, old := n.Labels[oldKey]
			return old || n.Labels[newKey] != want[n.Name]
		})
	}, "every Node has the new key only")
	harness.Eventually(t, func() bool { return len(recorded(t, oldKey)) == 0 && maps.Equal(recorded(t, newKey), want) }, settles, time.Second,
		"every record has the new key, those of Nodes that are away, too")
	pos("the migration is over")
	answer = nodekeep.Command(t, "", "", "report", "migrations", "--exit-code")
	assert.Zero(t, answer.Code, answer.Out+answer.ErrOut)
	usePolicy(t, "")

	harness.Parallel(absent, 4, func(name string) {
		created := nodekeep.Register(t, name)
		assert.Equal(t, want[name], created.Labels[newKey], "in the CREATE")
		assert.NotContains(t, created.Labels, oldKey)
	})
	pos("all Nodes are back")

	for uid, node := range deleted.all() {
		if _, ours := prev[uid]; ours {
			assert.Contains(t, absent, node, "Pod %s was deleted while the key was renamed", uid)
		}
	}
	assert.Len(t, deleted.all(), replaced, "nobody deleted a Pod but the rollout")
	for _, state := range watched.Stop() {
		_, ok := want[state.Name]
		_, old := state.Labels[oldKey]
		_, renamed := state.Labels[newKey]
		if ok && !old && !renamed {
			t.Errorf("Node %s lacks both keys at resourceVersion %s", state.Name, state.ResourceVersion)
		}
	}
	pos("all is checked")
}
