package capture

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/record"
)

// requiredOfRules are labels that a rule sets by what a Node has; the noncompliant taint follows at once.
const requiredOfRules = `
labels: {rules: [
  {name: plugin, when: {capacity: {nvidia.com/gpu: ">=1"}}, set: {gpu: "yes"}},
  {name: driver, when: {devices: {driver: gpu.nvidia.com}}, set: {model: known}},
]}
governance:
  keys: [{key: gpu, required: true, mode: deny}, {key: pool, requires: [model], mode: deny}, {key: tier, values: [gold], required: true, mode: deny}]
  noncompliant: {taint: "example.com/noncompliant:NoExecute"}
`

func TestAMissingLabelIsNoViolationWhileARuleDoesNotKnowAFact(t *testing.T) {
	devices := func(ofNode ...*observe.Slice) func(string) observe.Devices {
		return func(string) observe.Devices { return observe.DevicesOf(ofNode) }
	}
	slice := observe.SliceOf(gpuSlice("s", "n1", "RTX"), classify.UsedDrivers{"gpu.nvidia.com": nil})
	audited := strings.ReplaceAll(requiredOfRules, "{name: ", "{mode: audit, name: ")
	for name, c := range map[string]struct {
		policy  string
		labels  labels
		ready   time.Duration
		devices func(string) observe.Devices
		want    []string
	}{
		"neither the plugin nor the devices are known": {requiredOfRules, labels{"tier": "gold", "pool": "a"}, time.Minute, nil, nil},
		"the plugin is known to report none":           {requiredOfRules, labels{"tier": "gold"}, time.Hour, nil, []string{"label gpu is required and missing"}},
		"the devices are known":                        {requiredOfRules, labels{"tier": "gold", "pool": "a"}, time.Minute, devices(slice), []string{"label pool requires label model, which is missing"}},
		"a wrong value is a fact":                      {requiredOfRules, labels{"tier": "iron", "pool": "a"}, time.Minute, nil, []string{`label tier has the value "iron", which is not one of its values`}},
		"no rule sets a missing label":                 {requiredOfRules, nil, time.Minute, nil, []string{"label tier is required and missing"}},
		"a rule of mode audit sets nothing":            {audited, labels{"tier": "gold", "pool": "a"}, time.Minute, nil, []string{"label gpu is required and missing", "label pool requires label model, which is missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			inputs := plan.Inputs{Policy: loadPolicy(t, c.policy), GuardInForce: true, Devices: c.devices, Now: now}
			var logged []string
			for _, v := range plan.Violations(record.Record{}, observe.FromNode(node("a", "10", c.labels, gpus("0", c.ready))), inputs) {
				logged = append(logged, v.String())
			}
			assert.Equal(t, c.want, logged)
		})
	}
}

// gpuRequired returns the Nodes that lack the label gpu, and whether n1 has the taint.
func gpuRequired(w *cluster, r *replica) (nodes int, hasTaint bool) {
	_, hasTaint = w.shows()["example.com/noncompliant:NoExecute"]
	return r.compliance.CountBreaking("gpu", governance.Required), hasTaint
}

func TestANodeIsNoncompliantOnlyOnceItsFactsAreKnown(t *testing.T) {
	settles := func(t *testing.T) (*cluster, *replica) {
		t.Helper()
		w := newCluster(t, requiredOfRules, node("a", "10", labels{"tier": "gold"}, owned("kubectl-label", "tier"), gpus("0", time.Second)))
		r := w.leader()
		r.releases(w.policy.RulesHash())
		require.Empty(t, r.works())
		return w, r
	}
	t.Run("not while a device plugin may register", func(t *testing.T) {
		w, r := settles(t)
		nodes, ok := gpuRequired(w, r)
		assert.Zero(t, nodes)
		assert.False(t, ok)
		assert.NotContains(t, r.reported(), GovernanceViolated)
	})
	t.Run("once it has not", func(t *testing.T) {
		w, r := settles(t)
		w.passes(classify.PluginGrace)
		r.reconciles()
		nodes, ok := gpuRequired(w, r)
		assert.Equal(t, 1, nodes)
		assert.True(t, ok)
		assert.Contains(t, r.reported(), GovernanceViolated)
	})
	t.Run("no longer while it may register again, after a restart", func(t *testing.T) {
		w, r := settles(t)
		w.passes(classify.PluginGrace)
		r.reconciles()
		w.edit(func(n *corev1.Node) { n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.now()) })
		require.Empty(t, r.works())
		nodes, ok := gpuRequired(w, r)
		assert.Zero(t, nodes)
		assert.False(t, ok)
	})
	t.Run("not at all where it has", func(t *testing.T) {
		w, r := settles(t)
		w.edit(gpus("1", time.Second))
		ok := false
		w.admits = func(_, updated *corev1.Node) error {
			ok = ok || len(updated.Spec.Taints) > 0
			return nil
		}
		require.Empty(t, r.works())
		assert.Equal(t, "yes", w.shows()["gpu"])
		assert.False(t, ok, "the change that sets the label adds no taint")
		nodes, _ := gpuRequired(w, r)
		assert.Zero(t, nodes)
	})
}

func TestAValueOfFactsThatGovernanceForbidsIsReportedAndMarksTheNode(t *testing.T) {
	const byFact = `
labels: {rules: [{name: tier, set: {tier: "{labels.class}"}}]}
governance:
  keys: [{key: tier, values: [gold], mode: deny}]
  noncompliant: {taint: "example.com/noncompliant:NoExecute"}
`
	w := newCluster(t, byFact, node("a", "10", labels{"class": "iron"}, owned("kubectl-label", "class")))
	r := w.leader()
	r.releases(w.policy.RulesHash())
	require.Empty(t, r.works())
	r.reconciles()
	assert.Equal(t, "iron", w.shows()["tier"], "the rule is in force")
	assert.Contains(t, w.shows(), "example.com/noncompliant:NoExecute")
	assert.Contains(t, r.reported(), GovernanceViolated)
	w.edit(func(n *corev1.Node) { n.Labels["class"] = "gold" })
	require.Empty(t, r.works())
	assert.Equal(t, "gold", w.shows()["tier"])
	assert.NotContains(t, w.shows(), "example.com/noncompliant:NoExecute")
}

func TestAHeartbeatOfANodeThatBreaksARuleCausesNoWork(t *testing.T) {
	w := newCluster(t, "governance: {keys: [{key: tier, values: [gold], mode: deny}]}\n")
	w.register(node("a", "10", labels{"tier": "iron"}, owned("kubectl-label", "tier")))
	r := w.leader()
	_ = r.works()
	assert.Equal(t, 1, r.compliance.CountBreaking("tier", governance.Value))
	r.wrote()
	w.edit(func(*corev1.Node) {})
	assert.Zero(t, r.queue.Len())
	assert.Empty(t, r.wrote())
	w.label("tier", "gold")
	_ = r.works()
	assert.Zero(t, r.compliance.CountBreaking("tier", governance.Value))
}
