package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/test/harness"
)

const featuresPolicy = `apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  labels:
    rules:
    - name: avx512
      when: {names: ["features-*"], features: {cpu.cpuid.AVX512F: "*", kernel.version.major: "6"}}
      set: {cpu.vector: avx512}
    - name: gpu
      when: {names: ["features-*"], features: {pci.device.vendor: "10de"}}
      set: {gpu.vendor: nvidia}
    - name: resize
      when: {names: ["features-*"], features: {GuaranteedQoSPodCPUResize: "*"}}
      set: {pod.resize: "true"}
    - name: other
      when: {names: ["features-*"]}
      set: {cpu.vector: none, features-test: "true"}
`

// mayReadFeatures grants capture the right that the chart grants with rules.features.
func mayReadFeatures(t *testing.T) {
	t.Helper()
	roles := nodekeep.Admin.RbacV1().ClusterRoles()
	change := func(ctx context.Context, edit func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) {
		role, err := roles.Get(ctx, "nodekeep-capture", metav1.GetOptions{})
		require.NoError(t, err)
		role.Rules = edit(role.Rules)
		_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	isFeatures := func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "nodefeatures") }
	t.Cleanup(func() {
		change(context.WithoutCancel(t.Context()), func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule { return slices.DeleteFunc(rules, isFeatures) })
	})
	change(t.Context(), func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		return append(rules, rbacv1.PolicyRule{APIGroups: []string{"nfd.k8s-sigs.io"}, Resources: []string{"nodefeatures"}, Verbs: []string{"get", "list", "watch"}})
	})
}

// discovers has NFD's worker publish what it found on a Node.
func discovers(t *testing.T, node string, features map[string]any) {
	t.Helper()
	objects, err := dynamic.NewForConfig(nodekeep.Cluster.Admin())
	require.NoError(t, err)
	client := objects.Resource(observe.NodeFeatureResource()).Namespace("default")
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"features": features}}}
	object.SetGroupVersionKind(observe.NodeFeatureResource().GroupVersion().WithKind("NodeFeature"))
	object.SetName(node)
	object.SetLabels(map[string]string{observe.NodeFeatureLabel: node})
	if published, err := client.Get(t.Context(), node, metav1.GetOptions{}); err == nil {
		object.SetResourceVersion(published.GetResourceVersion())
		_, err = client.Update(t.Context(), object, metav1.UpdateOptions{})
		require.NoError(t, err)
		return
	}
	_, err = client.Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
}

// withAVX512 returns the features of a machine whose kernel has a version.
func withAVX512(kernel string) map[string]any {
	return map[string]any{
		"flags":      map[string]any{"cpu.cpuid": map[string]any{"elements": map[string]any{"AVX512F": map[string]any{}, "SSE4": map[string]any{}}}},
		"attributes": map[string]any{"kernel.version": map[string]any{"elements": map[string]any{"major": kernel}}},
		"instances": map[string]any{"pci.device": map[string]any{"elements": []any{
			map[string]any{"attributes": map[string]any{"vendor": "8086"}}, map[string]any{"attributes": map[string]any{"vendor": "10de"}},
		}}},
	}
}

// hasOfFeatures waits until a Node has exactly these of the labels that the rules set.
func hasOfFeatures(t *testing.T, name string, want map[string]string) {
	t.Helper()
	harness.Eventually(t, func() bool {
		labels := nodekeep.Node(t, name).Labels
		for _, key := range []string{"cpu.vector", "gpu.vendor", "pod.resize", "features-test"} {
			if labels[key] != want[key] {
				return false
			}
		}
		return true
	}, 3*settles, 50*time.Millisecond, "node %s must come to have %v", name, want)
}

// declares has the kubelet of a Node declare features.
func declares(t *testing.T, name string, features ...string) (kept bool) {
	t.Helper()
	nodes := nodekeep.Kubelet(t, name).CoreV1().Nodes()
	harness.Eventually(t, func() bool {
		node, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		node.Status.DeclaredFeatures = features
		node.Status.NodeInfo.KubeletVersion = "v1.36.0"
		var updated *corev1.Node
		if updated, err = nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); apierrors.IsConflict(err) {
			return false
		}
		require.NoError(t, err)
		kept = slices.Equal(features, updated.Status.DeclaredFeatures)
		return true
	}, settles, 20*time.Millisecond)
	return kept
}

func TestRulesAboutFeaturesFollowNFDOnceItIsInstalledAndTheKubelet(t *testing.T) {
	type labels = map[string]string
	const name, hostile, declaring = "features-1", "features-2", "features-3"
	for _, node := range []string{name, hostile, declaring} {
		nodekeep.Register(t, node)
		reports(t, node, "", longReady())
	}
	mayReadFeatures(t)
	withPolicy(t, featuresPolicy, func() {
		// Without NFD, rules about its features decide nothing, and others do. That is no error.
		hasOfFeatures(t, name, labels{"features-test": "true"})
		held := func(node string) func() bool {
			return func() bool {
				return strings.Contains(nodekeep.Node(t, node).Annotations["nodekeep.dev/labels"], "until")
			}
		}
		if declares(t, declaring, "GuaranteedQoSPodCPUResize") {
			resizable := labels{"features-test": "true", "pod.resize": "true"}
			hasOfFeatures(t, declaring, resizable)
			require.True(t, declares(t, declaring, "Other"))
			require.Eventually(t, held(declaring), settles, 50*time.Millisecond)
			require.True(t, declares(t, declaring))
			require.Eventually(t, func() bool { return !held(declaring)() }, settles, 50*time.Millisecond, "an empty list proves nothing")
			hasOfFeatures(t, declaring, resizable)
		} else {
			t.Log("this API server drops status.declaredFeatures, so declared features are not tested")
		}
		hasOfFeatures(t, name, labels{"features-test": "true"})
		harness.Eventually(t, func() bool { return metric(t, "capture", `nodekeep_rules_facts_unknown{source="features"}`) == 1 }, settles, 50*time.Millisecond)

		require.NoError(t, nodekeep.ApplyNodeFeatures(t.Context()))
		uninstall := func() {
			out, err := nodekeep.Kubectl(context.WithoutCancel(t.Context()), "delete", "--ignore-not-found", "crd", harness.NodeFeatureCRD)
			require.NoError(t, err, out)
		}
		t.Cleanup(uninstall)
		harness.Eventually(t, func() bool { return metric(t, "capture", `nodekeep_rules_facts_unknown{source="features"}`) == 0 }, 5*settles, 50*time.Millisecond, "without a restart")
		hasOfFeatures(t, name, labels{"features-test": "true"}) // NFD has not said what it found
		discovers(t, name, withAVX512("5"))
		hasOfFeatures(t, name, labels{"features-test": "true", "cpu.vector": "none", "gpu.vendor": "nvidia"})
		discovers(t, name, withAVX512("6"))
		hasOfFeatures(t, name, labels{"features-test": "true", "cpu.vector": "avx512", "gpu.vendor": "nvidia"})

		// An object as large as the API server takes stops nothing.
		elements := map[string]any{"AVX512F": map[string]any{}}
		for i := range 60_000 {
			elements[fmt.Sprintf("X%05d", i)] = map[string]any{}
		}
		discovers(t, hostile, map[string]any{
			"flags":      map[string]any{"cpu.cpuid": map[string]any{"elements": elements}},
			"attributes": map[string]any{"kernel.version": map[string]any{"elements": map[string]any{"major": "6", "full": strings.Repeat("x", 100_000)}}},
		})
		hasOfFeatures(t, hostile, labels{"features-test": "true", "cpu.vector": "avx512"})
		discovers(t, name, withAVX512("5"))
		require.Eventually(t, held(name), settles, 50*time.Millisecond)
		discovers(t, name, withAVX512("6"))
		require.Eventually(t, func() bool { return !held(name)() }, settles, 50*time.Millisecond)

		// NFD is uninstalled as Helm does it: the objects are deleted, and their kind stays. What capture reads after that shows that it knows.
		out, err := nodekeep.Kubectl(t.Context(), "delete", "nodefeatures", "--all", "--namespace", "default")
		require.NoError(t, err, out)
		discovers(t, hostile, withAVX512("5"))
		require.Eventually(t, held(hostile), settles, 50*time.Millisecond)
		require.False(t, held(name)(), "that an object is deleted is no evidence: %s", nodekeep.Node(t, name).Annotations["nodekeep.dev/labels"])
		hasOfFeatures(t, name, labels{"features-test": "true", "cpu.vector": "avx512", "gpu.vendor": "nvidia"})

		// NFD's kind is deleted, and with it all objects: what they said is not known, and labels stay.
		uninstall()
		harness.Eventually(t, func() bool { return metric(t, "capture", `nodekeep_rules_facts_unknown{source="features"}`) == 1 }, 5*settles, 50*time.Millisecond)
		hasOfFeatures(t, name, labels{"features-test": "true", "cpu.vector": "avx512", "gpu.vendor": "nvidia"})
	})
	nodekeep.DeleteNode(t, declaring)
	nodekeep.DeleteNode(t, hostile)
	nodekeep.DeleteNode(t, name)
}
