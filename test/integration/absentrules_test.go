package integration

import (
	"maps"
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

// What kubeadm adds at each join of a control plane.
const (
	excluded     = "node.kubernetes.io/exclude-from-external-load-balancers"
	controlPlane = "node-role.kubernetes.io/control-plane:NoSchedule"
)

const absentPolicy = `apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  labels:
    rules:
    - name: one-node
      when: {names: ["single-*"]}
      ensureAbsent: [node.kubernetes.io/exclude-from-external-load-balancers, "node-role.kubernetes.io/control-plane:NoSchedule"]
`

// joined returns what the kubelet of a control plane sends, as kubeadm starts it.
func joined(name string) *corev1.Node {
	node := tainted(name, controlPlane)
	node.Labels[excluded] = ""
	return node
}

// install does what kubeadm does once its kubelet runs.
func install(t *testing.T, name string) {
	t.Helper()
	nodekeep.Label(t, name, map[string]string{excluded: ""})
	nodekeep.Taint(t, name, controlPlane)
}

// comesToShow waits until a Node shows exactly these of the items that tests here are about, and no gate.
func comesToShow(t *testing.T, name string, want map[string]string) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	var got map[string]string
	harness.Eventually(t, func() bool {
		node = nodekeep.Node(t, name)
		got = record.Join(node.Labels, node.Spec.Taints)
		maps.DeleteFunc(got, func(key, _ string) bool { return key != excluded && key != controlPlane && key != "rack" })
		return maps.Equal(got, want) && !harness.Gated(node)
	}, settles, 20*time.Millisecond, "node %s must come to show %v; it has %v", name, want, &got)
	return node
}

func TestWhatAnInstallerPutsBackAtEachJoinIsAbsentWhileARuleSaysSo(t *testing.T) {
	type items = map[string]string
	const name = "single-1"
	rack := items{"rack": "r1"}
	var held []string
	withPolicy(t, absentPolicy, func() {
		nodekeep.RulesInForce(t)
		t.Run("the CREATE of the kubelet is stored without it", func(t *testing.T) {
			created := nodekeep.RegisterNode(t, joined(name))
			assert.NotContains(t, created.Labels, excluded)
			assert.False(t, harness.Carries(created, controlPlane))
			nodekeep.Label(t, name, rack)
			nodekeep.WaitRecorded(t, created, rack)
			nodekeep.WaitEvent(t, name, "RulesApplied") // nobody else would tell the operator
			staysAs(t, comesToShow(t, name, rack))
		})
		t.Run("what the installer puts back three times is removed three times", func(t *testing.T) {
			drifted := measure(t, "capture", `nodekeep_rule_labels_drifted_total{key="`+excluded+`"}`)
			for range 3 {
				install(t, name)
				comesToShow(t, name, rack)
			}
			assert.GreaterOrEqual(t, drifted.rose(t), 1.0)
			nodekeep.WaitEvent(t, name, "RulesApplied")
			want := items{"rack": "r1", excluded: "", controlPlane: ""}
			nodekeep.WaitRecorded(t, nodekeep.Node(t, name), want)
			nodekeep.DeleteNode(t, name)
			returned := nodekeep.Register(t, name)
			assert.Equal(t, "r1", returned.Labels["rack"])
			assert.NotContains(t, returned.Labels, excluded, "recorded, and not restored")
			assert.False(t, harness.Carries(returned, controlPlane))
			staysAs(t, comesToShow(t, name, rack))
			nodekeep.WaitRecorded(t, returned, want)
		})
		t.Run("with the webhook down capture removes it before the gate goes", func(t *testing.T) {
			nodekeep.DeleteNode(t, name)
			seen := nodekeep.WatchNodes(t)
			nodekeep.WithoutWebhook(t, func() {
				created := nodekeep.RegisterNode(t, joined(name))
				assert.Contains(t, created.Labels, excluded)
				assert.True(t, harness.Gated(created))
				comesToShow(t, name, rack)
			})
			uid := nodekeep.Node(t, name).UID
			for _, state := range seen.Stop() {
				if state.UID == uid && !harness.Gated(state.Node) {
					assert.NotContains(t, state.Labels, excluded)
					assert.False(t, harness.Carries(state.Node, controlPlane))
				}
			}
		})
		t.Run("a new rule that would remove a label from many Nodes waits for an operator", func(t *testing.T) {
			all, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			held = harness.Names("single-held", len(all.Items)/9+3) // more than one in ten
			eachNode(held, func(name string) { nodekeep.RegisterRecorded(t, name, rack) })
			const extra = absentPolicy + "    - {name: no-rack, when: {names: [\"single-held-*\"]}, ensureAbsent: [rack]}\n"
			reported := nextPolicyEvent(t, "ChangesHeld")
			nodekeep.SetPolicy(t, extra)
			reported()
			eachNode(held, func(name string) { comesToShow(t, name, rack) })
			nodekeep.DeleteNode(t, held[0])
			assert.Equal(t, "r1", nodekeep.Register(t, held[0]).Labels["rack"], "in the CREATE, too")
			comesToShow(t, held[0], rack)
			acceptRules(t)
			eachNode(held, func(name string) { comesToShow(t, name, items{}) })
			nodekeep.WaitRecorded(t, nodekeep.Node(t, held[0]), rack)
		})
	})
	acceptRules(t) // to add a taint on many Nodes waits as well
	node := comesToShow(t, name, items{"rack": "r1", excluded: "", controlPlane: ""})
	assert.NotContains(t, node.Annotations, policy.LabelsAnnotation)
	eachNode(held, func(name string) { comesToShow(t, name, rack) })
	staysAs(t, handedOver(t, node.Name))
}
