package scheduling

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

func TestNoPodIsBoundToANodeBeforeTheNodeCarriesItsLabelsAndTaints(t *testing.T) {
	for title, test := range map[string]struct {
		name    string
		arrange func(t *testing.T)
		inline  bool // or else Nodes wait behind the gate for their protected labels
	}{
		"webhook and capture up":                         {"both-up", asInstalled, false},
		"webhook down, so that the gate is all there is": {"webhook-down", withoutWebhook, false},
		"gate policy off, so that the webhook must gate": {"policy-off", withoutGatePolicy, false},
		"protected labels inline":                        {"inline", asInstalled, true},
	} {
		t.Run(title, func(t *testing.T) {
			contest := func() {
				result := hold(t, test.name, nodeCount, func(t *testing.T) func() { test.arrange(t); return func() {} })
				assert.Empty(t, result.misplaced)
				for group := range shunning() {
					assert.NotZero(t, result.verdicts[group], "the scheduler must have tried pods of group %s while Nodes registered", group)
				}
				if !test.inline {
					assert.NotZero(t, result.gated, "the scheduler must have met gated Nodes, or the gate was not put to the test")
				}
			}
			if !test.inline {
				contest()
				return
			}
			nodekeep.UsePolicy(t, policyWith("inline"))
			nodekeep.WithInline(t, contest)
		})
	}
}

// The test above can fail. Nothing but what the titles say differs.
func TestWithoutWebhookAndGatePodsAreMisplaced(t *testing.T) {
	for title, test := range map[string]struct {
		name    string
		nodes   int
		arrange func(t *testing.T) (afterwards func())
		race    bool // it is chance which group is misplaced
	}{
		"without nodekeep": {"nothing", nodeCount, withoutAnything, false},
		"with capture alone, which the scheduler outruns": {"capture-alone", nodeCount / 4, func(t *testing.T) func() { withoutWebhookAndGatePolicy(t); return func() {} }, true},
	} {
		t.Run(title, func(t *testing.T) {
			result := hold(t, test.name, test.nodes, test.arrange)
			sum := 0
			for group := range shunning() {
				t.Logf("%d of %d pods of group %s are misplaced", result.misplaced[group], result.pods[group], group)
				sum += result.misplaced[group]
				if !test.race {
					assert.NotZero(t, result.misplaced[group], group)
				}
			}
			assert.NotZero(t, sum)
		})
	}
}

func TestAPodThatToleratesAllButTheGateStaysOffANodeUntilTheGateGoes(t *testing.T) {
	node := harness.Names("gated", 1)
	pods := podsIn(t, "gated")
	rememberThenDelete(t, node)
	startCapture := withoutCapture(t)
	nodekeep.Register(t, node[0])
	// As when a Node becomes Ready while capture is dead: what the API server put there goes.
	nodekeep.Untaint(t, node[0], corev1.TaintNodeNotReady+":NoSchedule")

	waiting := pod("tolerates-all-but-the-gate", tenant, dedicated)
	_, err := pods.Create(t.Context(), waiting, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		p, err := pods.Get(t.Context(), waiting.Name, metav1.GetOptions{})
		return err == nil && verdict(p) != ""
	}, settles, 20*time.Millisecond, "the scheduler must try the pod")
	assert.Never(t, func() bool {
		p, err := pods.Get(t.Context(), waiting.Name, metav1.GetOptions{})
		return err != nil || p.Spec.NodeName != ""
	}, 3*time.Second, 50*time.Millisecond, "the pod must stay unbound")

	startCapture()
	assert.Equal(t, node[0], bound(t, pods, waiting.Name))
	complete(t, node)
}
