package local

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

// namespace is the release namespace.
const namespace = "nodekeep-system"

// settles is how long what nodekeep and the kubelet do by themselves may take on a busy computer.
const settles = harness.Settles

// installed installs the chart as README does, with further arguments of Helm, and returns when its pods are ready.
func (c *cluster) installed(t *testing.T, args ...string) {
	t.Helper()
	_, err := harness.RunHelm(t.Context(), append([]string{"install", "nodekeep", harness.Chart(), "--kubeconfig", c.kubeconfig, "--namespace", namespace, "--create-namespace",
		"--set", "image.repository=nodekeep,image.tag=test,image.pullPolicy=Never", "--wait", "--timeout", settles.String()}, args...)...)
	require.NoError(t, err)
}

// What operators set on the Node: labels that its kubelet may set, one that it may not, and a taint.
var (
	ordinary  = map[string]string{"tier": "gold", "example.com/rack": "r7"}
	protected = map[string]string{"node-role.kubernetes.io/storage": ""}
	disk      = "maintenance=disk:PreferNoSchedule"
)

// Real kubelets, whose Nodes are deleted and which are started again: one next to the node that nodekeep runs on, then that very node.
func TestARealKubeletGetsBackWhatItsNodeHad(t *testing.T) {
	c := forTest(t)
	kubelet := c.add(t, "node-1")
	c.installed(t)
	t.Run("runs pods with the rights that the chart grants", runsPodsWithoutRights)
	k := c.add(t, "node-2", "--node-labels=example.com/own=kubelet")
	first := c.audit.next(t, k.name, 0)
	t.Run("sends what is known of kubelets", func(t *testing.T) { sendsWhatIsKnown(t, first) })
	c.decorate(t, k.name)

	t.Run("stays away until it is started again", func(t *testing.T) { staysAwayUntilItIsStarted(t, c, k) })
	t.Run("gets everything back each time", func(t *testing.T) { getsEverythingBackEachTime(t, c, k) })
	t.Run("changes nothing by a mere restart", func(t *testing.T) { changesNothingByARestart(t, c, k) })
	t.Run("may put the gate on by itself", func(t *testing.T) { mayPutTheGateOnByItself(t, c, k) })

	k.losesNode(t)
	c.decorate(t, kubelet.name)
	t.Run("registers as the only node of its cluster", func(t *testing.T) { comesBackByItself(t, c, kubelet) })
	t.Run("registers so with all pods deleted", func(t *testing.T) { comesBackByItselfWithoutItsPods(t, c, kubelet) })
}

// decorate puts labels and a taint on a Node as operators do, and waits until its record holds them.
func (c *cluster) decorate(t *testing.T, name string) {
	t.Helper()
	c.Label(t, name, ordinary)
	c.Label(t, name, protected)
	node := c.Taint(t, name, disk)
	harness.Eventually(t, func() bool {
		found, _ := c.Record(t, name)
		items := found.Items()
		assert.NotContains(t, items, "example.com/own", "the kubelet sets its --node-labels by itself")
		return found.Newest().UID == node.UID && harness.HasAll(items, ordinary) && items[record.TaintKey(harness.TaintOf(disk))] != ""
	}, settles, 50*time.Millisecond, "the record of %s must come to hold what was added", name)
}

// sendsWhatIsKnown holds the kubelet to what nodekeep relies on.
func sendsWhatIsKnown(t *testing.T, r registration) {
	sent := r.Sent
	assert.Equal(t, map[string]string{
		"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
		"kubernetes.io/hostname": "node-2", "example.com/own": "kubelet",
	}, sent.Labels)
	assert.Equal(t, map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}, sent.Annotations)
	assert.Empty(t, sent.UID)
	assert.Empty(t, sent.ResourceVersion)
	assert.Empty(t, sent.Spec.ProviderID, "nobody told it")
	assert.Empty(t, sent.Spec.Taints)
	assert.NotEmpty(t, sent.Status.NodeInfo.BootID)
	ready := slices.IndexFunc(sent.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	require.GreaterOrEqual(t, ready, 0)
	assert.Equal(t, corev1.ConditionFalse, sent.Status.Conditions[ready].Status, "it is not ready yet")
	assert.NotEmpty(t, sent.Status.Images)
	assert.NotEmpty(t, sent.Status.Capacity)
	stored := r.stored(t)
	assert.False(t, harness.Gated(stored), "a Node that nobody remembers is not kept waiting: %v", stored.Spec.Taints)
	managers := map[string]bool{}
	for _, entry := range stored.ManagedFields {
		managers[entry.Manager] = true
	}
	assert.Equal(t, map[string]bool{"kubelet": true}, managers)
}

// staysAwayUntilItIsStarted: a running kubelet does not notice that its Node is deleted.
func staysAwayUntilItIsStarted(t *testing.T, c *cluster, k *kubelet) {
	registered := len(c.audit.registrations(t, k.name))
	c.DeleteNode(t, k.name)
	// It reports its status every ten seconds.
	for end := time.Now().Add(12 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
		require.LessOrEqual(t, len(c.audit.registrations(t, k.name)), registered)
	}
	k.registersAgain(t)
	c.comesBack(t, k.name)
}

// registersAgain starts the kubelet again and returns what it sends.
func (k *kubelet) registersAgain(t *testing.T, args ...string) registration {
	t.Helper()
	registered := len(k.cluster.audit.registrations(t, k.name))
	k.stop(t)
	k.start(t, append([]string{"--node-labels=example.com/own=kubelet"}, args...)...)
	return k.cluster.audit.next(t, k.name, registered)
}

// comesBack waits until a Node carries everything, is ready and not behind the gate.
func (c *cluster) comesBack(t *testing.T, name string) *corev1.Node {
	t.Helper()
	return c.await(t, name, "fully restored and ready", func(node *corev1.Node) bool { return restored(node) && ready(node) })
}

// restored reports whether a Node has what decorate gave it, and no gate.
func restored(node *corev1.Node) bool {
	return harness.HasAll(node.Labels, ordinary) && harness.HasAll(node.Labels, protected) && harness.Carries(node, disk) && !harness.Gated(node)
}

func getsEverythingBackEachTime(t *testing.T, c *cluster, k *kubelet) {
	for round := range 5 {
		k.losesNode(t)
		begun := time.Now()
		r := k.registersAgain(t)
		stored := r.stored(t)
		assert.False(t, harness.HasAll(r.Sent.Labels, ordinary), "the kubelet knows nothing of it")
		assert.True(t, harness.HasAll(stored.Labels, ordinary) && harness.Carries(stored, disk), "round %d: what kubelets may set is in the object that its own CREATE stored: %v", round, stored.Labels)
		assert.False(t, harness.HasAll(stored.Labels, protected))
		assert.True(t, policy.DefaultGate.Holds(stored.Spec.Taints), "round %d: what they may not set comes behind the gate: %v", round, stored.Spec.Taints)
		node := c.comesBack(t, k.name)
		require.Equal(t, stored.UID, node.UID)
		t.Logf("round %d: CREATE %s after the start of the kubelet, answered in %s; whole and ready %s after the CREATE", round,
			r.Received.Sub(begun).Round(time.Millisecond), r.Answered.Sub(r.Received).Round(time.Millisecond), time.Since(r.Answered).Round(time.Millisecond))
	}
}

// changesNothingByARestart: each start sends a CREATE, and the Node stays the object that it is.
func changesNothingByARestart(t *testing.T, c *cluster, k *kubelet) {
	prev := c.comesBack(t, k.name)
	states := c.watchesNode(t, k.name)
	r := k.registersAgain(t)
	assert.Equal(t, 409, r.ResponseStatus.Code, "the kubelet sends a CREATE for a Node that exists: %s", r.Response)
	var status metav1.Status
	require.NoError(t, json.Unmarshal(r.Response, &status))
	assert.True(t, apierrors.IsAlreadyExists(&apierrors.StatusError{ErrStatus: status}))
	updated := c.comesBack(t, k.name)
	assert.Equal(t, prev.UID, updated.UID)
	for _, node := range states.upTo(t, updated) {
		assert.True(t, restored(node), "it is never gated, nor without its labels: version %s", node.ResourceVersion)
	}
}

// mayPutTheGateOnByItself: the gate policy must not put a second one.
func mayPutTheGateOnByItself(t *testing.T, c *cluster, k *kubelet) {
	k.losesNode(t)
	r := k.registersAgain(t, "--register-with-taints="+string(policy.DefaultGate)+"=:NoSchedule")
	assert.True(t, harness.Gated(&r.Sent))
	stored := r.stored(t)
	copies := 0
	for _, taint := range stored.Spec.Taints {
		if policy.DefaultGate.Matches(taint) {
			copies++
		}
	}
	assert.Equal(t, 1, copies)
	c.comesBack(t, k.name)
}

// comesBackByItself: all of nodekeep runs on the very Node that goes.
func comesBackByItself(t *testing.T, c *cluster, k *kubelet) {
	prev := c.pods(t)
	r := c.goesAndComesBack(t, k, func() {})
	assert.NotEmpty(t, r.stored(t).Annotations[policy.StampAnnotation], "its containers run on without it, and so the webhook answered")
	assert.Equal(t, prev, c.pods(t))
}

// comesBackByItselfWithoutItsPods: the machine was off, and the pods that replace those that were on it found no node.
func comesBackByItselfWithoutItsPods(t *testing.T, c *cluster, k *kubelet) {
	prev := c.pods(t)
	r := c.goesAndComesBack(t, k, func() {
		k.stopContainers(t)
		for name := range prev { // as the garbage collector does with pods of Nodes that have been gone for forty seconds
			require.NoError(t, c.Admin.CoreV1().Pods(namespace).Delete(t.Context(), name, *metav1.NewDeleteOptions(0)))
		}
		harness.Eventually(t, func() bool { return c.endpoints(t) == 0 && len(c.pods(t)) == len(prev) }, settles, 20*time.Millisecond)
		k.startContainers(t)
	})
	assert.Empty(t, r.stored(t).Annotations[policy.StampAnnotation], "there was no webhook")
}

// goesAndComesBack deletes the Node of a kubelet and starts that again.
func (c *cluster) goesAndComesBack(t *testing.T, k *kubelet, meanwhile func()) registration {
	t.Helper()
	k.losesNode(t)
	meanwhile()
	begun := time.Now()
	r := k.registersAgain(t)
	reviewed := r.stored(t).Annotations[policy.StampAnnotation] != ""
	assert.Equal(t, reviewed || c.gates(t), policy.DefaultGate.Holds(r.stored(t).Spec.Taints), "the gate waits for the protected label: %v", r.stored(t).Spec.Taints)
	c.comesBack(t, k.name)
	whole := time.Since(r.Answered)
	harness.Eventually(t, func() bool { return c.endpoints(t) == 3 }, settles, 20*time.Millisecond, "the webhook must be called again")
	t.Logf("CREATE %s after the start of the kubelet; whole and ready %s after the CREATE; the webhook has all its replicas %s after it", r.Received.Sub(begun).Round(time.Millisecond),
		whole.Round(time.Millisecond), time.Since(r.Answered).Round(time.Millisecond))
	return r
}

// gates reports whether the API server gates new Nodes by itself: the chart installs the policy where the API server serves its kind.
func (c *cluster) gates(t *testing.T) bool {
	t.Helper()
	_, err := c.Admin.AdmissionregistrationV1().MutatingAdmissionPolicies().Get(t.Context(), "nodekeep-gate", metav1.GetOptions{})
	require.True(t, err == nil || apierrors.IsNotFound(err), "%v", err)
	return err == nil
}

// pods returns those of nodekeep, and how often their containers were started again.
func (c *cluster) pods(t *testing.T) map[string]int {
	t.Helper()
	list, err := c.Admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	pods := map[string]int{}
	for _, pod := range list.Items {
		for _, status := range pod.Status.ContainerStatuses {
			pods[pod.Name] += int(status.RestartCount)
		}
		pods[pod.Name] += 0
	}
	return pods
}

// endpoints returns how many replicas of the webhook the API server may call.
func (c *cluster) endpoints(t *testing.T) (count int) {
	t.Helper()
	slices, err := c.Admin.DiscoveryV1().EndpointSlices(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=nodekeep-webhook"})
	require.NoError(t, err)
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			if ready := endpoint.Conditions.Ready; ready == nil || *ready {
				count++
			}
		}
	}
	return count
}
