package recipes

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

// What a managed node group sets appears half a minute after the Node, taints too (containers-roadmap#1962), and it can set no role. Rules that
// select the label of the group, which the kubelet brings, set all of it: when?
func TestLabelsAndTaintsOfAnEKSNodeGroupAreInTheAnswerToTheCREATE(t *testing.T) {
	const (
		role  = "node-role.kubernetes.io/gpu"
		taint = "dedicated=gpu:NoSchedule"
	)
	group := map[string]string{"eks.amazonaws.com/nodegroup": "gpu"}
	labels := map[string]string{"example.com/pool": "gpu"}

	self := harness.RegistrationWith("ip-10-0-1-1.ec2.internal", group)
	self.Labels[role] = "" // as a user of a node group would have it
	_, err := nodekeep.Kubelet(t, self.Name).CoreV1().Nodes().Create(t.Context(), self, metav1.CreateOptions{})
	require.ErrorContains(t, err, "is not allowed to set the following labels: "+role)

	for title, inline := range map[string]bool{"protected labels are deferred": false, "protected labels are inline": true} {
		t.Run(title, func(t *testing.T) {
			policy := pageYAML(t, "labels-in-git.md", "EKS: roles of managed node groups", "apiVersion: nodekeep.dev/v1alpha1\n")
			if inline {
				policy = strings.Replace(policy, "  labels:\n", "  labels:\n    protected: inline\n", 1)
			}
			usePolicy(t, policy)
			measure := func() {
				const name = "ip-10-0-1-2.ec2.internal"
				defer deleteNode(t, name)
				watcher := nodekeep.WatchNodes(t)
				created := nodekeep.RegisterNode(t, harness.RegistrationWith(name, group))
				assert.True(t, harness.HasAll(created.Labels, labels), "the labels are in the answer to the CREATE: %v", created.Labels)
				assert.True(t, harness.Carries(created, taint), "so is the taint: %v", harness.TaintsOf(created))
				assert.Equal(t, inline, hasLabel(created, role), "the role")
				assert.Equal(t, !inline, harness.Gated(created), "without its role, it waits behind the gate")

				nodekeep.WaitRestored(t, name, map[string]string{role: ""})
				watcher.Stop()
				states := watcher.States(name)
				for _, state := range states {
					assert.True(t, harness.HasAll(state.Labels, labels) && harness.Carries(state.Node, taint), "no client sees the Node without them")
					assert.True(t, hasLabel(state.Node, role) || harness.Gated(state.Node), "no client sees the Node open and without its role")
				}
				last := states[len(states)-1]
				t.Logf("%s: labels and taint in the CREATE; the last change came %s after it", title, last.Time.Sub(states[0].Time).Round(time.Millisecond))
			}
			if inline {
				nodekeep.WithInline(t, measure)
			} else {
				measure()
			}
		})
	}
}

func hasLabel(node *corev1.Node, key string) bool {
	_, found := node.Labels[key]
	return found
}

// deleteNode deletes a Node, also when it has gone or the test has failed.
func deleteNode(t *testing.T, name string) {
	t.Helper()
	_ = nodekeep.Admin.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
}
