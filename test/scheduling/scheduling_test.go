package scheduling

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
)

func TestNoPodIsBoundToANodeBeforeTheNodeCarriesItsLabels(t *testing.T) {
	for title, test := range map[string]struct {
		name    string
		arrange func(t *testing.T)
		gated   bool // Nodes wait behind the gate for their protected labels
	}{
		"webhook and capture up":                         {"both-up", asInstalled, true},
		"webhook down, so that the gate is all there is": {"webhook-down", withoutWebhook, true},
		"gate policy off, so that the webhook must gate": {"policy-off", withoutGatePolicy, true},
		"protected labels inline":                        {"inline", inline, false},
	} {
		t.Run(title, func(t *testing.T) {
			result := hold(t, test.name, test.arrange)
			assert.Empty(t, result.misplaced)
			assert.NotZero(t, result.verdicts, "the scheduler must have tried while Nodes registered")
			if test.gated {
				assert.NotZero(t, result.gated, "the scheduler must have met gated Nodes, or the gate was not put to the test")
			}
		})
	}
}

// The test above can fail: take webhook and gate away, and the scheduler is faster than capture. Nothing else differs;
// capture runs undisturbed.
func TestWithoutWebhookAndGatePodsAreMisplaced(t *testing.T) {
	result := hold(t, "control", withoutWebhookAndGatePolicy)
	for group, pods := range result.pods {
		t.Logf("%d of %d pods of group %s are misplaced", result.misplaced[group], pods, group)
		assert.NotZero(t, result.misplaced[group], group)
	}
}

func TestAPodThatToleratesNothingStaysOffAGatedNodeUntilTheGateGoes(t *testing.T) {
	node := names("gated", 1)
	pods := podsIn(t, "gated")
	rememberThenDelete(t, node)
	startCapture := withoutCapture(t)
	_, err := register(t.Context(), node[0], metav1.CreateOptions{})
	require.NoError(t, err)
	// As when a Node becomes Ready while capture is dead: what the API server put there goes, the gate alone is left.
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"taints": []corev1.Taint{policy.DefaultGate.Taint()}}})
	require.NoError(t, err)
	_, err = nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), node[0], types.MergePatchType, body, metav1.PatchOptions{})
	require.NoError(t, err)

	_, err = pods.Create(t.Context(), pod("tolerates-nothing"), metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		p, err := pods.Get(t.Context(), "tolerates-nothing", metav1.GetOptions{})
		return err == nil && verdict(p) != ""
	}, settles, 20*time.Millisecond, "the scheduler must try the pod")
	assert.Never(t, func() bool {
		p, err := pods.Get(t.Context(), "tolerates-nothing", metav1.GetOptions{})
		return err != nil || p.Spec.NodeName != ""
	}, 3*time.Second, 50*time.Millisecond, "the pod must stay unbound")

	startCapture()
	assert.Equal(t, node[0], bound(t, pods, "tolerates-nothing"))
	complete(t, node)
}
