package nodepolicy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

const (
	// accepted is a policy that shows on each Node.
	accepted = "labels: {ignore: [ignored.example.com/*]}\n" +
		"taints:\n  rules: [{selector: lane, taint: \"lane={value}:NoSchedule\"}]\n  register: [{taint: \"example.com/unchecked:NoSchedule\"}]"
	// unusable would show on each Node in another way, and cannot be used.
	unusable = "labels: {keep: [a b]}\ntaints: {rules: [{selector: lane, taint: \"other={value}:NoSchedule\"}]}"

	ignored   = "ignored.example.com/a"
	unchecked = "example.com/unchecked:NoSchedule"
)

func TestAPolicyThatVanishesOrCannotBeUsedChangesNoNodeAndStopsNoRestart(t *testing.T) {
	for n, c := range []struct {
		name string
		lose func(t *testing.T)
	}{
		{"it is deleted", func(t *testing.T) { nodekeep.DeletePolicy(t) }},
		{"it cannot be used", func(t *testing.T) { nodekeep.ForcePolicy(t, policytest.Manifest(unusable)) }},
		{"its kind is deleted", func(t *testing.T) {
			t.Cleanup(func() { require.NoError(t, nodekeep.ApplyCRD(context.WithoutCancel(t.Context()))) })
			nodekeep.MustKubectl(t, "delete", "customresourcedefinition", "nodepolicies.nodekeep.dev")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			withSections(t, accepted)
			goodIs(t, 1)
			lives, returns := fmt.Sprintf("absent-lives-%d", n), fmt.Sprintf("absent-returns-%d", n)
			for _, name := range []string{lives, returns} {
				node := nodekeep.Register(t, name)
				nodekeep.Label(t, name, map[string]string{"lane": "a", "kept": "yes", ignored: "yes"})
				comesToCarry(t, name, unchecked, "lane=a:NoSchedule")
				nodekeep.WaitRecordedAtLeast(t, node, map[string]string{"lane": "a", "kept": "yes"})
			}
			isAccepted(t, "ignored.example.com/*")
			head := nodekeep.Node(t, lives).ResourceVersion

			c.lose(t)
			goodIs(t, 0)
			hasWhatItHad(t, returns)
			nodekeep.WithoutBoth(t, func() {})
			goodIs(t, 0)
			hasWhatItHad(t, returns)

			// One that nobody knows is treated by the same policy, in the CREATE and later.
			fresh := fmt.Sprintf("absent-new-%d", n)
			assert.True(t, harness.Carries(nodekeep.Register(t, fresh), unchecked), "in the CREATE")
			nodekeep.Label(t, fresh, map[string]string{"lane": "b", ignored: "yes"})
			comesToCarry(t, fresh, unchecked, "lane=b:NoSchedule")
			nodekeep.WaitRecordedAtLeast(t, nodekeep.Node(t, fresh), map[string]string{"lane": "b"})
			assert.NotContains(t, nodekeep.MustRecord(t, fresh).Items(), ignored)
			assert.Equal(t, head, nodekeep.Node(t, lives).ResourceVersion, "no live Node is written")
		})
	}
	goodIs(t, 1)
}

// hasWhatItHad registers a Node again, which gets what it had under the accepted policy.
func hasWhatItHad(t *testing.T, name string) {
	t.Helper()
	nodekeep.DeleteNode(t, name)
	returned := nodekeep.Register(t, name)
	assert.True(t, harness.HasAll(returned.Labels, map[string]string{"lane": "a", "kept": "yes"}), "%v", returned.Labels)
	assert.NotContains(t, returned.Labels, ignored)
	comesToCarry(t, name, unchecked, "lane=a:NoSchedule")
	nodekeep.WaitRecordedAtLeast(t, returned, map[string]string{"lane": "a", "kept": "yes"})
}

// isAccepted waits until the policy that was accepted last contains a text.
func isAccepted(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool {
		state, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Get(t.Context(), store.AcceptedConfigMap, metav1.GetOptions{})
		return err == nil && strings.Contains(state.Data[store.AcceptedPolicy], text)
	}, harness.Settles, poll, "capture must keep the policy that was accepted last")
}
