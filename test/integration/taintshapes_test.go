package integration

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

// taintedRegistration is a Node with taints from everywhere: few keys, so that they meet.
type taintedRegistration struct {
	node       *corev1.Node
	labels     map[string]string // remembered
	remembered []corev1.Taint    // valid or not, with doubles
}

func pick[T any](from []T) T { return from[rand.IntN(len(from))] }

func randomRegistration(name string) taintedRegistration {
	keys := []string{"dedicated", "role", "soft", "node-ready/unverified", "example.com/mine"}
	values := []string{"", "a", "ci", "gpu", "true"}
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	r := taintedRegistration{node: harness.Registration(name), labels: map[string]string{}}
	current := map[string]bool{}
	for range rand.IntN(6) {
		taint := corev1.Taint{Key: pick(append(keys, string(policy.DefaultGate))), Value: pick(values), Effect: pick(effects)}
		if item := record.TaintKey(taint); !current[item] { // a kubelet with two of them could not register without us either
			current[item] = true
			r.node.Spec.Taints = append(r.node.Spec.Taints, taint)
		}
	}
	hostile := []string{"", "not a key!", "a/b/c", "node.kubernetes.io/unschedulable", "ToBeDeletedByClusterAutoscaler", string(policy.DefaultGate)}
	for range rand.IntN(8) {
		taint := corev1.Taint{Key: pick(keys), Value: pick(values), Effect: pick(effects)}
		switch rand.IntN(8) {
		case 0:
			taint.Key = pick(hostile)
		case 1:
			taint.Value = pick([]string{"not a value!", strings.Repeat("x", 64), "-"})
		case 2:
			taint.Effect = pick([]corev1.TaintEffect{"", "Sometimes", "noschedule"})
		}
		r.remembered = append(r.remembered, taint)
	}
	for _, label := range []string{"dedicated", "soft", roleCI} {
		value := pick([]string{"ci", "gpu", "yes", ""})
		if rand.IntN(3) == 0 {
			r.labels[label] = value
		}
		if rand.IntN(4) == 0 && label != roleCI {
			r.node.Labels[label] = value
		}
	}
	return r
}

// record returns what a hand or a fault may have left for the Node.
func (r taintedRegistration) record(t *testing.T) string {
	return string(harness.MustJSON(t, map[string]any{"version": 1, "node": r.node.Name, "labels": r.labels, "taints": r.remembered}))
}

// wanted returns the taints that the Node must have in the end: its own before the recorded ones, these before what the rules
// want, and all of it before what is added at registration.
func (r taintedRegistration) wanted() map[string]string {
	want := customTaints(r.node)
	add := func(key, value, effect string) {
		if _, taken := want[key+":"+effect]; !taken {
			want[key+":"+effect] = value
		}
	}
	remembered := map[string]bool{}
	for _, taint := range r.remembered {
		item := record.TaintKey(taint)
		if remembered[item] {
			continue // of two, the first counts, or neither
		}
		remembered[item] = true
		known := map[string]bool{"dedicated": true, "role": true, "soft": true, "node-ready/unverified": true, "example.com/mine": true}
		first := taint.Effect == corev1.TaintEffectNoSchedule && (taint.Key == "node-ready/unverified" || taint.Key == "example.com/mine")
		effect := map[corev1.TaintEffect]bool{"NoSchedule": true, "PreferNoSchedule": true, "NoExecute": true}
		if known[taint.Key] && !first && effect[taint.Effect] && len(taint.Value) < 10 && taint.Value != "-" {
			add(taint.Key, taint.Value, string(taint.Effect))
		}
	}
	labels := r.labelsInTheEnd()
	if labels["dedicated"] == "ci" {
		add("dedicated", "first", "NoSchedule")
	}
	if value, ok := labels["dedicated"]; ok {
		add("dedicated", value, "NoSchedule")
		add("dedicated", value, "NoExecute")
	}
	if _, ok := labels[roleCI]; ok {
		add("role", "ci", "NoExecute")
	}
	if labels["soft"] == "yes" {
		add("soft", "", "PreferNoSchedule")
	}
	add("node-ready/unverified", "true", "NoSchedule")
	if labels["dedicated"] == "gpu" {
		add("example.com/mine", "", "NoSchedule")
	}
	return want
}

// customTaints returns the taints of a Node by key and effect, less the gate and what Kubernetes adds by itself.
func customTaints(node *corev1.Node) map[string]string {
	taints := map[string]string{}
	for _, taint := range node.Spec.Taints {
		if !policy.DefaultGate.Matches(taint) && !strings.HasPrefix(taint.Key, "node.kubernetes.io/") {
			taints[record.TaintKey(taint)] = taint.Value
		}
	}
	return taints
}

func TestNoSetOfTaintsKeepsANodeOut(t *testing.T) {
	const count = 300
	nodekeep.UsePolicy(t, policyOf(`
  rules:
  - {selector: dedicated=ci, taint: "dedicated=first:NoSchedule"}
  - {selector: dedicated, taint: "dedicated={value}:NoSchedule"}
  - {selector: dedicated, taint: "dedicated={value}:NoExecute"}
  - {selector: node-role.kubernetes.io/ci, taint: "role=ci:NoExecute"}
  - {selector: soft=yes, taint: "soft:PreferNoSchedule"}
  register:
  - {taint: "node-ready/unverified=true:NoSchedule"}
  - {taint: "example.com/mine:NoSchedule", nodeSelector: dedicated=gpu}
`))
	withWebhook, excluded := make([]string, 0, count), make([]string, 0, count/3)
	all := map[string]taintedRegistration{}
	for n := range count {
		name := fmt.Sprintf("tainted-%03d", n)
		all[name] = randomRegistration(name)
		if n%3 == 0 {
			excluded = append(excluded, name)
		} else {
			withWebhook = append(withWebhook, name)
		}
	}
	eachNode(append(withWebhook, excluded...), func(name string) { createRaw(t, name, all[name].record(t)) })
	webhookHasRecords(t)
	var registered, atOnce atomic.Int64
	create := func(name string) {
		created, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Create(t.Context(), all[name].node, metav1.CreateOptions{})
		if err != nil {
			t.Errorf("%s with %v and record %s: %v", name, all[name].node.Spec.Taints, all[name].record(t), err)
			return
		}
		registered.Add(1)
		if maps.Equal(customTaints(created), all[name].wanted()) {
			atOnce.Add(1)
		}
	}
	uncalled := failedOpen(t)
	eachNode(withWebhook, create)
	uncalled = failedOpen(t) - uncalled // a busy machine answers too late
	assert.GreaterOrEqual(t, int(atOnce.Load())+uncalled, len(withWebhook), "with the webhook up, all is in the CREATE; %d calls were given up", uncalled)
	nodekeep.WithoutWebhook(t, func() {
		eachNode(excluded, create)
		for name, r := range all {
			node := nodekeep.WaitRestored(t, name, r.labelsInTheEnd())
			if !maps.Equal(customTaints(node), r.wanted()) {
				harness.Eventually(t, func() bool { node = nodekeep.Node(t, name); return maps.Equal(customTaints(node), r.wanted()) }, settles, 20*time.Millisecond,
					"%s with %v and record %s: %v in place of %v", name, r.node.Spec.Taints, r.record(t), node.Spec.Taints, r.wanted())
			}
		}
	})
	require.EqualValues(t, count, registered.Load())
	t.Logf("%d of %d random registrations were accepted, %d with the webhook up and %d without; %d had every taint in the CREATE itself, and all in the end",
		registered.Load(), count, len(withWebhook), len(excluded), atOnce.Load())
}

// labelsInTheEnd returns the labels that the Node must have in the end.
func (r taintedRegistration) labelsInTheEnd() map[string]string {
	labels := maps.Clone(r.labels)
	maps.Copy(labels, r.node.Labels)
	return labels
}
