package capture

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	eventrecord "k8s.io/client-go/tools/record"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// BenchmarkResync is one resync of capture's leader, of 1,000 Nodes that are as they should be: with all that it reconciles of them. Without rules for
// labels, and with 50, of which ten are true of the Node and set 3 labels. "all-decided" reconciles every Node, as after a change of the policy.
func BenchmarkResync(b *testing.B) {
	replacement, rest := measure.PolicyOfRules(50, 16), measure.PolicyOfRules(0, 16)
	measure.InTurn(b, resyncsPerFullResync,
		measure.Variant{Name: "without-rules", Run: resyncOf(b, rest, 0, (*Controller).resync)},
		measure.Variant{Name: "50-rules", Run: resyncOf(b, replacement, 3, (*Controller).resync)},
		measure.Variant{Name: "50-rules-all-decided", Run: resyncOf(b, replacement, 3, func(c *Controller, _ uint32) { c.enqueueAll() })})
}

// resyncOf queues and works on 1,000 Nodes at each call. Rules set so many labels on each.
func resyncOf(b *testing.B, text string, set int, resync func(c *Controller, round uint32)) func() {
	b.Helper()
	const nodes = 1000
	c := newCluster(b, "")
	var err error
	c.policy, err = policy.Load([]byte(text), gate)
	require.NoError(b, err)
	first := c.leader()
	c.register(usualNode())
	require.Empty(b, first.works())
	settled, remembered := c.node(), c.record()
	require.Len(b, settled.Labels, 5+10+set)
	require.Len(b, remembered.RuleLabels, set)

	records, err := store.NewConfigMaps(fake.NewClientset(), "nodekeep", slog.New(slog.DiscardHandler))
	require.NoError(b, err)
	client := fake.NewClientset()
	r, err := New(Options{
		Client: client, Records: records, Policy: func() policy.Policy { return c.policy }, Events: &eventrecord.FakeRecorder{}, Guard: c.guard,
		Metrics: NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler), Workers: 1, Now: c.now,
	})
	require.NoError(b, err)
	b.Cleanup(r.queue.ShutDown)
	for i := range nodes {
		settled.Name = fmt.Sprintf("worker-%d", i)
		remembered.Node = settled.Name
		_, err := records.Put(b.Context(), remembered, "")
		require.NoError(b, err)
		r.observations.observeLive(observe.CompactNodeOf(observe.FromNode(settled)))
	}
	r.leading.Store(true)
	r.rulesHeld = func(policy.Policy) bool { return false }
	round := uint32(0)
	work := func() {
		for r.queue.Len() > 0 {
			name, _ := r.queue.Get()
			if err := r.reconcileOne(b.Context(), name); err != nil || len(client.Actions()) > 0 {
				b.Fatal(name, "is not as it should be:", err, client.Actions())
			}
			r.queue.Forget(name)
			r.queue.Done(name)
		}
	}
	r.enqueueAll()
	work()
	return func() {
		resync(r, round)
		round++
		work()
	}
}

// usualNode returns a Node that has been ready for a day, with 10 labels that an operator has set.
func usualNode() *corev1.Node {
	n := node("a", "100", labels{
		"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux",
	}, owned("kubelet", "beta.kubernetes.io/arch", "beta.kubernetes.io/os", "kubernetes.io/arch", "kubernetes.io/hostname", "kubernetes.io/os"))
	var operators []string
	for i := range 10 {
		operators = append(operators, fmt.Sprintf("example.com/label-%d", i))
		n.Labels[operators[i]] = "value"
	}
	owned("kubectl-label", operators...)(n)
	n.Status.Capacity = corev1.ResourceList{
		"cpu": resource.MustParse("16"), "memory": resource.MustParse("65806664Ki"), "pods": resource.MustParse("110"),
		"ephemeral-storage": resource.MustParse("203056560Ki"), "hugepages-1Gi": resource.MustParse("0"), "hugepages-2Mi": resource.MustParse("0"),
	}
	n.Status.Allocatable = n.Status.Capacity
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-24 * time.Hour))}}
	n.Status.NodeInfo = corev1.NodeSystemInfo{
		MachineID: "2d3f7a0e4b1c4c0f8a6e5d9b7c1a2f30", SystemUUID: "4c4c4544-0051-3510-8052-b4c04f4d3132", KubeletVersion: "v1.36.3",
		KernelVersion: "6.8.0-52-generic", OSImage: "Ubuntu 24.04.2 LTS", ContainerRuntimeVersion: "containerd://2.1.4",
		Architecture: "amd64", OperatingSystem: "linux",
	}
	return n
}
