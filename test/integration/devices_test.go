package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

const devicesPolicy = `apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  labels:
    rules:
    - name: h100
      when: {devices: {driver: gpu.example.com, attributes: {productName: "*H100*"}}}
      set: {gpu.model: h100}
    - name: rtx5070
      when: {devices: {driver: gpu.example.com, attributes: {productName: "*RTX 5070*"}, min: 1}}
      set: {gpu.model: rtx5070, gpu.rtx5070: "true"}
    - name: none
      when: {names: ["devices-*"]}
      set: {gpu.model: none}
    - name: other
      when: {names: ["devices-*"]}
      set: {devices-test: "true"}
`

// mayReadSlices grants capture the right that the chart grants with rules.devices, until revoke is called.
func mayReadSlices(t *testing.T) (revoke func()) {
	t.Helper()
	roles := nodekeep.Admin.RbacV1().ClusterRoles()
	change := func(ctx context.Context, rules []rbacv1.PolicyRule) (prev []rbacv1.PolicyRule) {
		role, err := roles.Get(ctx, "nodekeep-capture", metav1.GetOptions{})
		require.NoError(t, err)
		prev = role.Rules
		if role.Rules = rules; rules == nil {
			role.Rules = slices.Concat(prev, []rbacv1.PolicyRule{{APIGroups: []string{resourcev1.GroupName}, Resources: []string{"resourceslices"}, Verbs: []string{"get", "list", "watch"}}})
		}
		_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
		require.NoError(t, err)
		return prev
	}
	shipped := change(t.Context(), nil)
	revoke = func() { change(context.WithoutCancel(t.Context()), shipped) }
	t.Cleanup(revoke)
	return revoke
}

// publishes has the driver of a Node publish a slice, with the kubelet's identity.
func publishes(t *testing.T, name string, generation, count int64, models ...string) {
	t.Helper()
	node := "devices-1"
	slices := nodekeep.Kubelet(t, node).ResourceV1().ResourceSlices()
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: generation, ResourceSliceCount: count},
	}}
	for i, model := range models {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name:       fmt.Sprintf("%s-%d", name, i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"productName": {StringValue: &model}, "index": {IntValue: new(int64)}},
		})
	}
	if published, err := slices.Get(t.Context(), name, metav1.GetOptions{}); err == nil {
		slice.ResourceVersion = published.ResourceVersion
		_, err = slices.Update(t.Context(), slice, metav1.UpdateOptions{})
		require.NoError(t, err)
		return
	}
	_, err := slices.Create(t.Context(), slice, metav1.CreateOptions{})
	require.NoError(t, err)
}

func withdraws(t *testing.T, node string, names ...string) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, nodekeep.Kubelet(t, node).ResourceV1().ResourceSlices().Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
}

// ofDevices returns the labels of a Node that the rules may set.
func ofDevices(node *corev1.Node) map[string]string {
	labels := maps.Clone(node.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool {
		return key != "gpu.model" && key != "gpu.rtx5070" && key != "devices-test"
	})
	return labels
}

// hasOfDevices waits until a Node has exactly these of the labels, and its annotation is as wanted.
func hasOfDevices(t *testing.T, name string, want map[string]string, held bool) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	harness.Eventually(t, func() bool {
		node = nodekeep.Node(t, name)
		isHeld := false
		for _, label := range policy.RuleLabelsOf(node.Annotations[policy.LabelsAnnotation]) {
			isHeld = isHeld || !label.End.IsZero()
		}
		return maps.Equal(want, ofDevices(node)) && held == isHeld
	}, settles, 20*time.Millisecond, "node %s must come to have %v, held: %v", name, want, held)
	return node
}

func TestRulesAboutDevicesFollowTheResourceSlicesOfANode(t *testing.T) {
	type labels = map[string]string
	const name = "devices-1"
	unknown := func(want float64) {
		t.Helper()
		harness.Eventually(t, func() bool { return metric(t, "capture", `nodekeep_rules_facts_unknown{source="devices"}`) == want }, settles, 50*time.Millisecond)
	}
	nodekeep.Register(t, name)
	reports(t, name, "", longReady())
	publishes(t, "devices-1-a", 1, 1, "GeForce RTX 5070 Ti")
	unknown(0) // no rule looks at devices
	withPolicy(t, devicesPolicy, func() {
		// Without the right, rules about devices decide nothing, and others do.
		unknown(1)
		rtx := labels{"gpu.model": "rtx5070", "gpu.rtx5070": "true", "devices-test": "true"}
		harness.Eventually(t, func() bool { return eventsOf(t, policyEvents, harness.PolicyName, "FactsUnknown") > 0 }, 3*settles, 50*time.Millisecond)
		staysAs(t, hasOfDevices(t, name, labels{"devices-test": "true"}, false))

		revoke := mayReadSlices(t)
		unknown(0) // without a restart
		staysAs(t, hasOfDevices(t, name, rtx, false))

		publishes(t, "devices-1-a", 2, 1, "GeForce RTX 5070 Ti") // the same again
		staysAs(t, nodekeep.Node(t, name))

		// Another model comes. Of two slices, only the first is there: whether the RTX 5070 is still there is not known.
		publishes(t, "devices-1-a", 3, 2, "H100 PCIe")
		combined := labels{"gpu.model": "h100", "gpu.rtx5070": "true", "devices-test": "true"}
		staysAs(t, hasOfDevices(t, name, combined, false))
		publishes(t, "devices-1-b", 3, 2, "H100 PCIe")
		hasOfDevices(t, name, combined, true) // now it is, and the label is held
		publishes(t, "devices-1-b", 4, 2, "GeForce RTX 5070 Ti")
		publishes(t, "devices-1-a", 4, 2, "H100 PCIe")
		hasOfDevices(t, name, combined, false)

		withdraws(t, name, "devices-1-a", "devices-1-b") // the driver restarts
		hasOfDevices(t, name, combined, true)
		publishes(t, "devices-1-a", 1, 2, "H100 PCIe")
		publishes(t, "devices-1-b", 1, 2, "GeForce RTX 5070 Ti")
		hasOfDevices(t, name, combined, false)

		recordComes(t, name, func(r record.Record) bool { return r.RuleLabels["gpu.model"].Value == "h100" })
		nodekeep.DeleteNode(t, name)
		assert.Equal(t, combined, ofDevices(nodekeep.Register(t, name)), "in the CREATE")
		reports(t, name, "", longReady())
		node := hasOfDevices(t, name, combined, false)

		// The right is revoked: what there is stays, and nothing is known of another Node.
		revoke()
		nodekeep.WaitRight(t, "system:serviceaccount:nodekeep-system:nodekeep-capture", nil,
			authorizationv1.ResourceAttributes{Verb: "list", Group: resourcev1.GroupName, Resource: "resourceslices"}, false)
		nodekeep.WithoutCapture(t, func() {})
		unknown(1)
		withdraws(t, name, "devices-1-a", "devices-1-b")
		nodekeep.Register(t, "devices-2")
		reports(t, "devices-2", "", longReady())
		hasOfDevices(t, "devices-2", labels{"devices-test": "true"}, false)
		assert.Equal(t, ofDevices(node), ofDevices(nodekeep.Node(t, name)))
		nodekeep.DeleteNode(t, "devices-2")

		mayReadSlices(t)
		unknown(0)
		hasOfDevices(t, name, combined, true)
	})
	unknown(0)
	hasOfDevices(t, name, labels{}, false)
}
