package attack

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/test/bench/measure"
	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/random"
	"nodekeep.dev/nodekeep/verify"
)

// The Nodes of the standing attack. evil is that of the attacking kubelet, edited are those that a client labels for its work.
const (
	evil    = "evil"
	open    = 6 // take workloads
	waits   = 3 // fail their checks: one with a NodeClaim, one with a Machine, one with neither
	deleted = 4
	edited  = 2
	returns = 3 // are deleted and register again all the time
)

// requests returns how many each attacker sends: `make test-faults` has the time for more.
func requests() int {
	if os.Getenv("NODEKEEP_LONG_FAULTS") == "" {
		return 2_500
	}
	return 10_000
}

const mostMemory = 256 << 20

// world is what the attackers know of the cluster.
type world struct {
	evilUID types.UID
	uids    map[string]string        // of Nodes
	workers atomic.Pointer[[]string] // the newest worker Pods
	healthy atomic.Pointer[[]string] // name prefixes of the Nodes whose workers pass their checks
	names   []string
}

func TestStandingAttackersChangeNothing(t *testing.T) {
	seed := random.Seed(t)
	random.Replay(t, "./test/attack", seed)
	mounts := t.TempDir()
	lying, ca := lie(t, mounts, seed)
	w := settled(t, everythingPolicy(t, lying, ca), mounts)
	editor := granted(t, "editor", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "patch", "update"}})
	url, _ := webhook(t)
	stamp := url[:strings.LastIndex(url, "/")]
	attackers := w.all(stamp)
	for n, config := range []*rest.Config{nodekeep.Cluster.Kubelet(evil), anonymous(t), tenant(t), configOf(t, editor)} {
		attackers[n].attackWith(t, config)
	}
	attackers[1].reads(t, stamp)
	watched, prev := nodekeep.WatchNodes(t), look(t)
	began := time.Now()
	var attack sync.WaitGroup
	for n, a := range attackers {
		attack.Go(func() { a.attack(t.Context(), seed+uint64(n), requests()) })
	}
	var ended atomic.Bool
	go func() { attack.Wait(); ended.Store(true) }()
	registered := 0
	for _, entries := lying.counts(); !ended.Load() || entries < requests(); _, entries = lying.counts() {
		name := harness.Names("returns", returns)[registered%returns]
		nodekeep.DeleteNode(t, name)
		nodekeep.Register(t, name) // none is refused
		nodekeep.WaitRestored(t, name, map[string]string{"team": "a", harness.Worker: ""})
		registered++
		time.Sleep(time.Second / 2)
	}
	took, changed := time.Since(began).Round(time.Second), prev.atAnyMoment(watched)
	assert.True(t, harness.Becomes(func() bool { return len(prev.changed(look(t))) == 0 }, harness.Settles, time.Second), "no fact may change")
	changed = append(changed, prev.changed(look(t))...)
	t.Logf("in %s, during which Nodes registered %d times:", took, registered)
	report(t, attackers, lying, changed)
	require.Empty(t, changed[:min(5, len(changed))], "%d facts changed", len(changed))
	w.wouldHaveSeen(t, prev)
}

// kinds returns the ways in which Nodes are removed. Each has a profile.
func kinds() []verify.RemovalKind {
	return []verify.RemovalKind{verify.RemoveNodeClaim, verify.RemoveMachine, verify.RemoveNode}
}

func TestTheSecurityPageSaysWhatTheStandingAttackersTry(t *testing.T) {
	var table strings.Builder
	table.WriteString("| Standing attacker | What it tries |\n|---|---|\n")
	for _, a := range (&world{}).all("") {
		var titles []string
		for _, item := range a.moves {
			titles = append(titles, item.title)
		}
		fmt.Fprintf(&table, "| %s | %s |\n", a.name, sentences(titles))
	}
	fmt.Fprintf(&table, "| the server of all inventories | %s |\n", sentences(kindsOfLies()))
	documented(t, "docs/security.md", table.String())
}

// sentences returns texts as a paragraph.
func sentences(texts []string) string {
	var all []string
	for _, text := range texts {
		all = append(all, strings.ToUpper(text[:1])+text[1:]+".")
	}
	return strings.Join(all, " ")
}

// everythingPolicy returns the policy of the installation, and in addition rules, inventories and profiles whose Nodes can be removed.
func everythingPolicy(t *testing.T, l *liar, ca string) string {
	t.Helper()
	manifest := object{}
	require.NoError(t, yaml.Unmarshal([]byte(nodekeep.Policy(t)), &manifest))
	policy := manifest["spec"].(object)
	sources, rules := l.sources(ca)
	policy["inventory"] = sources
	policy["labels"].(object)["rules"] = rules
	policy["taints"] = object{"rules": []object{{"selector": "accelerator=gpu", "taint": "accelerator=gpu:NoSchedule"}}, "register": []object{{"taint": "example.com/unchecked=true:NoSchedule", "nodeSelector": "register=taint"}}}
	var profiles []object
	for _, kind := range kinds() {
		profiles = append(profiles, object{"name": strings.ToLower(string(kind)), "nodeSelector": "remove=" + string(kind), "checks": []object{{"name": "api", "api": object{}}}, "attempts": object{"max": 1, "backoff": "1s", "maxBackoff": "1s"}, "onFailure": kind})
	}
	policy["verify"] = object{"limits": object{"stopAbove": "100%"}, "profiles": profiles}
	text, err := yaml.Marshal(manifest)
	require.NoError(t, err)
	return string(text)
}

// settled starts all processes, and returns when the Nodes are as they are to stay.
func settled(t *testing.T, policy, mounts string) *world {
	t.Helper()
	prepared(t)
	ctx := context.WithoutCancel(t.Context())
	require.NoError(t, nodekeep.WritePolicy(ctx, policy))
	nodekeep.TimeoutSeconds, nodekeep.CaptureArgs = harness.Patient, []string{"--inventory-dir", mounts}
	t.Cleanup(func() {
		assert.NoError(t, nodekeep.StopVerify())
		assert.NoError(t, nodekeep.StopCapture())
		assert.NoError(t, nodekeep.StopWebhook())
	})
	require.NoError(t, nodekeep.Start(ctx))
	require.NoError(t, nodekeep.StartVerify(ctx))
	w := &world{uids: map[string]string{}}
	w.heal("open", evil)
	nodekeep.RunWorkers(t, w.serve)

	for n, name := range harness.Names("open", open) {
		w.register(t, name, map[string]string{"remove": string(kinds()[n%len(kinds())])})
	}
	w.register(t, evil, map[string]string{"remove": string(verify.RemoveNode)})
	for _, name := range slices.Concat(harness.Names("edited", edited), harness.Names("returns", returns), harness.Names("deleted", deleted)) {
		w.register(t, name, nil)
	}
	for _, name := range w.names { // the controller opens them, and capture records them
		labels, taints := map[string]string{"team": "a", harness.Worker: ""}, []string{"dedicated=a:NoExecute"}
		if !attackers(name) { // a taint of a rule follows a label that a kubelet may set itself
			labels["accelerator"], taints = "gpu", []string{"accelerator=gpu:NoSchedule", "dedicated=a:NoExecute"}
		}
		nodekeep.MergeNode(t, name, object{"metadata": object{"labels": labels, "annotations": object{"example.com/note": "kept"}}})
		nodekeep.Taint(t, name, "dedicated=a:NoExecute")
		want := maps.Clone(labels)
		want["dedicated:NoExecute"], want["@example.com/note"] = "a", "kept"
		var lines []string
		var recorded map[string]string
		harness.Eventually(t, func() bool {
			found, _ := nodekeep.Record(t, name)
			lines, recorded = slices.Sorted(slices.Values(harness.TaintsOf(nodekeep.Node(t, name)))), found.Items()
			return slices.Equal(lines, taints) && harness.HasAll(recorded, want)
		}, harness.Settles, 20*time.Millisecond, "%s must be open and recorded; it has %v, its record %v", name, &lines, &recorded)
	}
	w.evilUID = nodekeep.Node(t, evil).UID
	for _, name := range harness.Names("deleted", deleted) {
		nodekeep.DeleteNode(t, name)
		nodekeep.WaitDeletionRecorded(t, name)
	}
	w.heal(evil) // what the checks ask is broken from here on, and the attacker's kubelet says that it is not
	w.fail(t)
	prev := look(t)
	harness.Eventually(t, func() bool {
		now := look(t)
		equal := len(prev.changed(now)) == 0
		prev = now
		return equal
	}, harness.Settles, 2*time.Second)
	return w
}

// fail registers the Nodes that fail their checks. Whatever the checks find, each could be removed in the way of its profile.
func (w *world) fail(t *testing.T) {
	t.Helper()
	client, err := dynamic.NewForConfig(nodekeep.Cluster.Admin())
	require.NoError(t, err)
	names := harness.Names("waits", waits)
	create := func(item dynamic.ResourceInterface, kind object, status object) types.UID {
		made, err := item.Create(t.Context(), &unstructured.Unstructured{Object: kind}, metav1.CreateOptions{})
		require.NoError(t, err)
		made.Object["status"] = status
		_, err = item.UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
		require.NoError(t, err)
		return made.GetUID()
	}
	claim := withField(named("karpenter.sh/v1", "NodeClaim", names[0]), "spec", object{"requirements": []any{}, "nodeClassRef": object{"group": "a.example.com", "kind": "A", "name": "a"}})
	uid := create(client.Resource(schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}), claim, object{"nodeName": names[0], "providerID": "box://" + names[0]})
	machine := withField(named("cluster.x-k8s.io/v1beta2", "Machine", names[1]), "spec", object{
		"clusterName": "a", "bootstrap": object{"dataSecretName": "a"}, "providerID": "box://" + names[1], "infrastructureRef": object{"apiGroup": "a.example.com", "kind": "A", "name": "a"},
	})
	create(client.Resource(schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines"}).Namespace("default"), machine, object{"nodeRef": object{"name": names[1]}})
	w.register(t, names[0], map[string]string{"remove": string(verify.RemoveNodeClaim)}, func(node *corev1.Node) {
		node.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: names[0], UID: uid}}
	})
	w.register(t, names[1], map[string]string{"remove": string(verify.RemoveMachine)}, func(node *corev1.Node) {
		node.Annotations = map[string]string{"cluster.x-k8s.io/machine": names[1], "cluster.x-k8s.io/cluster-namespace": "default"}
	})
	w.register(t, names[2], map[string]string{"remove": string(verify.RemoveNode)})
}

func (w *world) register(t *testing.T, name string, labels map[string]string, changes ...func(*corev1.Node)) {
	t.Helper()
	node := harness.RegistrationWith(name, labels)
	for _, change := range changes {
		change(node)
	}
	node.Spec.ProviderID = "box://" + name
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()}}
	w.uids[name] = string(nodekeep.RegisterNode(t, node).UID)
	nodekeep.Untaint(t, name, corev1.TaintNodeNotReady+":NoSchedule") // as the node lifecycle controller does, which does not run here
	w.names = append(w.names, name)
}

// heal says which Nodes' workers pass from now on, by the beginnings of their names.
func (w *world) heal(prefixes ...string) { w.healthy.Store(&prefixes) }

// serve ends worker Pods as kubelets do, and shows the attackers which there are.
func (w *world) serve(pod *corev1.Pod, task verify.Task) bool {
	newest := []string{pod.Name}
	if prev := w.workers.Load(); prev != nil {
		newest = slices.Concat(newest, (*prev)[:min(20, len(*prev))])
	}
	w.workers.Store(&newest)
	message, code := harness.WorkerReport(task.Checks, verify.Failed, verify.ReasonTimeout), int32(1)
	if slices.ContainsFunc(*w.healthy.Load(), func(prefix string) bool { return strings.HasPrefix(pod.Spec.NodeName, prefix) }) {
		message, code = harness.WorkerReport(task.Checks, verify.Passed, ""), 0
	}
	harness.SetEnded(pod, message, code)
	return true
}

// report prints the table, and asserts that each attacker has attacked and no process has suffered.
func report(t *testing.T, attackers []*attacker, lying *liar, changed []string) {
	t.Helper()
	subject := "nothing"
	if len(changed) > 0 {
		subject = fmt.Sprint("one of ", len(changed), " facts, or none")
	}
	table := strings.Builder{}
	table.WriteString("| Attacker | Requests | let through | refused | not answered | What changed |\n|---|---|---|---|---|---|\n")
	for _, a := range attackers {
		a.shows(t, requests())
		fmt.Fprintf(&table, "| %s | %d of %d kinds | %d | %d | %d | %s |\n", a.name, requests(), len(a.moves), a.passed.Load(), a.refused.Load(), a.failed.Load(), subject)
	}
	answers, entries := lying.counts()
	fmt.Fprintf(&table, "| the server of %d inventories | %d answers of %d kinds, %d entries | | | | %s |\n", inventories, answers, len(kindsOfLies()), entries, subject)
	for _, process := range []string{"nodekeep-webhook", "nodekeep-capture", "nodekeep-verify"} {
		running := nodekeep.Cluster.Process(process)
		select {
		case <-running.Exited():
			t.Errorf("%s has ended", process)
			continue
		default:
		}
		usage, err := measure.UsageOf(running.Pid())
		require.NoError(t, err)
		fmt.Fprintf(&table, "%s: %d MiB at most\n", process, usage.Peak>>20)
		assert.Less(t, usage.Peak, int64(mostMemory), process)
		body, err := os.ReadFile(running.LogPath())
		require.NoError(t, err)
		assert.NotRegexp(t, `\bpanic`, string(body), process) // as a word: Pods have random names
	}
	t.Log("\n" + table.String())
}

// wouldHaveSeen shows that Nodes could have been removed: it happens when only they fail. A controller that knows of no brake decides at once.
func (w *world) wouldHaveSeen(t *testing.T, prev facts) {
	t.Helper()
	require.NoError(t, nodekeep.StopVerify())
	w.heal("open", evil)
	for _, namespace := range []string{"default", "kube-system", "shop"} { // Pods that run on a Node keep it from being removed
		require.NoError(t, nodekeep.Admin.CoreV1().Pods(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}))
	}
	if err := nodekeep.Admin.CoreV1().ConfigMaps(verify.Namespace).Delete(t.Context(), verify.LedgerMap, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		require.NoError(t, err)
	}
	require.NoError(t, nodekeep.StartVerify(context.WithoutCancel(t.Context())))
	harness.Eventually(t, func() bool {
		return slices.ContainsFunc(prev.changed(look(t)), func(value string) bool { return strings.Contains(value, "waits-") })
	}, 2*harness.Settles, time.Second, "a Node that fails what others pass is removed")
}
