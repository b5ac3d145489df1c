package integration

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// policyOf is a policy file with this section of taints.
func policyOf(taints string) string {
	return "apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\ntaints:\n" + taints
}

// startedUnder does something with both processes started anew under a policy file, capture with further arguments, and
// starts them as they were afterwards.
func startedUnder(t *testing.T, content string, captureArgs []string, do func()) {
	t.Helper()
	shipped, err := os.ReadFile(nodekeep.PolicyFile)
	require.NoError(t, err)
	restartBoth(t, content, captureArgs)
	defer restartBoth(t, string(shipped), nil)
	do()
}

func restartBoth(t *testing.T, content string, captureArgs []string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	errs := make([]error, 4)
	var both sync.WaitGroup
	both.Go(func() { errs[0] = nodekeep.StopWebhook() })
	both.Go(func() { errs[1] = nodekeep.StopCapture() })
	both.Wait()
	require.NoError(t, nodekeep.WritePolicy(content))
	nodekeep.CaptureArgs = captureArgs
	both.Go(func() { errs[2] = nodekeep.StartWebhook(ctx) })
	both.Go(func() { errs[3] = nodekeep.StartCapture(ctx) })
	both.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// taintOf reads a taint as `kubectl taint` takes it: key=value:effect or key:effect.
func taintOf(text string) corev1.Taint {
	name, effect, _ := strings.Cut(text, ":")
	key, value, _ := strings.Cut(name, "=")
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
}

// changeTaints does what `kubectl taint` does, but never over somebody else's change.
func changeTaints(t testing.TB, name string, change func([]corev1.Taint) []corev1.Taint) *corev1.Node {
	t.Helper()
	var changed *corev1.Node
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) {
		node := getNode(t, name)
		body := mustJSON(t, map[string]any{
			"metadata": map[string]any{"resourceVersion": node.ResourceVersion},
			"spec":     map[string]any{"taints": change(node.Spec.Taints)},
		})
		changed, err = nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "kubectl-taint"})
		return err
	}))
	return changed
}

// taint puts taints on a Node, as an admin.
func taint(t testing.TB, name string, texts ...string) {
	t.Helper()
	changeTaints(t, name, func(taints []corev1.Taint) []corev1.Taint {
		for _, text := range texts {
			taints = append(without(taints, taintOf(text)), taintOf(text))
		}
		return taints
	})
}

// untaint takes a taint off a Node, as an admin.
func untaint(t testing.TB, name, text string) *corev1.Node {
	t.Helper()
	return changeTaints(t, name, func(taints []corev1.Taint) []corev1.Taint { return without(taints, taintOf(text)) })
}

// without are the taints less that of the same key and effect.
func without(taints []corev1.Taint, taint corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(other corev1.Taint) bool { return record.TaintKey(other) == record.TaintKey(taint) })
}

// carries reports whether a Node has this taint, exactly and once.
func carries(node *corev1.Node, text string) bool {
	wanted, found := taintOf(text), 0
	for _, taint := range node.Spec.Taints {
		if taint.ToString() == wanted.ToString() {
			found++
		}
	}
	return found == 1
}

// taintsOf are the taints of a Node as kubectl writes them, sorted, less what Kubernetes puts on by itself.
func taintsOf(node *corev1.Node) []string {
	texts := []string{}
	for _, taint := range node.Spec.Taints {
		if !strings.HasPrefix(taint.Key, "node.kubernetes.io/") {
			texts = append(texts, taint.ToString())
		}
	}
	slices.Sort(texts)
	return texts
}

// comesToCarry waits until a Node has exactly these taints, less what Kubernetes puts on by itself.
func comesToCarry(t testing.TB, name string, texts ...string) *corev1.Node {
	t.Helper()
	slices.Sort(texts)
	var node *corev1.Node
	var last []string
	require.Eventually(t, func() bool {
		node = getNode(t, name)
		last = taintsOf(node)
		return slices.Equal(last, texts)
	}, settles, 10*time.Millisecond, "node %s must come to carry %v; last seen %v", name, texts, &last)
	return node
}

// staysAs checks that nobody writes a Node for a while.
func staysAs(t testing.TB, node *corev1.Node, during time.Duration) {
	t.Helper()
	time.Sleep(during)
	now := getNode(t, node.Name)
	require.Equal(t, node.ResourceVersion, now.ResourceVersion, "node %s was written; it carries %v", node.Name, taintsOf(now))
}

// ruleTaintsOf are the taints of a Node that nodekeep says it has derived from the labels.
func ruleTaintsOf(t testing.TB, node string) []string {
	t.Helper()
	texts := []string{}
	if found, err := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{}); err == nil {
		for _, taint := range policy.DerivedTaints(found.Annotations[policy.TaintsAnnotation]) {
			texts = append(texts, taint.ToString())
		}
	}
	return texts
}

// sights is what a watcher sees, as it comes.
type sights struct {
	mu     sync.Mutex
	byName map[string][]sight
	stop   func()
}

type sight struct {
	node *corev1.Node
	at   time.Time
}

// watchSights watches all Nodes from now on, until the end of the test.
func watchSights(t *testing.T) *sights {
	t.Helper()
	list, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Limit: 1})
	require.NoError(t, err)
	w, err := nodekeep.Admin.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	require.NoError(t, err)
	s := &sights{byName: map[string][]sight{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			if node, ok := event.Object.(*corev1.Node); ok && event.Type != watch.Deleted {
				s.mu.Lock()
				s.byName[node.Name] = append(s.byName[node.Name], sight{node, time.Now()})
				s.mu.Unlock()
			}
		}
	}()
	s.stop = sync.OnceFunc(func() {
		time.Sleep(200 * time.Millisecond) // the last events are on their way
		w.Stop()
		<-done
	})
	t.Cleanup(s.stop)
	return s
}

// of are the states of a Node that were seen, oldest first.
func (s *sights) of(name string) []sight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.byName[name])
}

// await waits until a state of a Node is seen that is newer than a version and as it should be, and returns when it was.
func (s *sights) await(t testing.TB, name, after string, is func(*corev1.Node) bool) (at time.Time, ok bool) {
	t.Helper()
	for deadline := time.Now().Add(settles); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		for _, seen := range slices.Backward(s.of(name)) {
			if version(t, seen.node.ResourceVersion) < version(t, after) {
				break
			}
			if is(seen.node) {
				return seen.at, true
			}
		}
	}
	return time.Time{}, false
}

func version(t testing.TB, resourceVersion string) int {
	t.Helper()
	number, err := strconv.Atoi(resourceVersion)
	require.NoError(t, err)
	return number
}

// eventsOf counts the Events of a reason about an object.
func eventsOf(t testing.TB, namespace, object, reason string) (count int) {
	t.Helper()
	events, err := nodekeep.Admin.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + object})
	require.NoError(t, err)
	for _, event := range events.Items {
		if event.Reason == reason {
			count += int(event.Count)
		}
	}
	return count
}

// metric sums the series of a process whose names begin so.
func metric(t *testing.T, process, prefix string) (sum float64) {
	t.Helper()
	_, body := read(t, nodekeep.MetricsURL(process))
	found := false
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		fields := strings.Fields(line)
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		require.NoError(t, err)
		sum, found = sum+value, true
	}
	require.True(t, found, "no series %s", prefix)
	return sum
}

// recordVersions are the versions of all records, by their names.
func recordVersions(t testing.TB) map[string]string {
	t.Helper()
	list, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: store.RecordLabel})
	require.NoError(t, err)
	versions := map[string]string{}
	for _, cm := range list.Items {
		versions[cm.Name] = cm.ResourceVersion
	}
	return versions
}

// nodeVersions are the versions of all Nodes, by their names.
func nodeVersions(t testing.TB) map[string]string {
	t.Helper()
	list, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	versions := map[string]string{}
	for _, node := range list.Items {
		versions[node.Name] = node.ResourceVersion
	}
	return versions
}
