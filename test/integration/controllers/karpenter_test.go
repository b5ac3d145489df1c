package controllers

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

var (
	nodePools  = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}
	nodeClaims = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
)

// ofPool is the label of Karpenter that names the NodePool of a NodeClaim and of a Node.
const ofPool = "karpenter.sh/nodepool"

// Conditions of a NodeClaim, and why they have their status.
const (
	drifted     = "Drifted"
	initialized = "Initialized"

	byTemplate  = "True NodePoolDrifted"
	isReady     = "True Initialized"
	waitsForKey = "Unknown KnownEphemeralTaintsExist"
)

// startKarpenter runs Karpenter with its kwok provider until the test ends.
func startKarpenter(t *testing.T) {
	t.Helper()
	restorePolicy(t)
	program(t, "karpenter", "sigs.k8s.io/karpenter/kwok", "sigs.k8s.io/karpenter", []string{
		"pkg/apis/crds/karpenter.sh_nodepools.yaml", "pkg/apis/crds/karpenter.sh_nodeclaims.yaml", "pkg/apis/crds/karpenter.sh_nodeoverlays.yaml",
		"kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml",
	}, []string{"DISABLE_LEADER_ELECTION=true", "METRICS_PORT=0", "HEALTH_PROBE_PORT=0", "BATCH_IDLE_DURATION=200ms"})
	apply(t, "apiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata: {name: default}\n")
}

// makePool makes a NodePool, which ends with its Nodes when the test does. The template has these fields besides those that every NodePool needs.
func makePool(t *testing.T, name string, nodes int, template map[string]any) {
	t.Helper()
	spec := map[string]any{
		"nodeClassRef": map[string]any{"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
		"requirements": []any{
			map[string]any{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": []any{"c-2x-amd64-linux"}},
			map[string]any{"key": "karpenter.sh/capacity-type", "operator": "In", "values": []any{"on-demand"}},
		},
	}
	maps.Copy(spec, template)
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"limits":     map[string]any{"cpu": 2 * nodes},
			"disruption": map[string]any{"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
			"template":   map[string]any{"metadata": map[string]any{"labels": map[string]any{"example.com/tier": "general"}}, "spec": spec},
		},
	})
	require.NoError(t, err)
	apply(t, string(text))
	t.Cleanup(func() {
		// No garbage collector runs here, which would delete the NodeClaims with their NodePool.
		ctx, ofThis := context.WithoutCancel(t.Context()), metav1.ListOptions{LabelSelector: ofPool + "=" + name}
		require.NoError(t, objects.Resource(nodePools).Delete(ctx, name, metav1.DeleteOptions{}))
		harness.Eventually(t, func() bool {
			_ = objects.Resource(nodeClaims).DeleteCollection(ctx, metav1.DeleteOptions{}, ofThis)
			nodes, err := nodekeep.Admin.CoreV1().Nodes().List(ctx, ofThis)
			return err == nil && len(nodes.Items) == 0 && len(claims(t, name)) == 0
		}, harness.Settles, 200*time.Millisecond, "the Nodes of NodePool %s must go with it", name)
	})
}

// claims returns the NodeClaims of a NodePool.
func claims(t *testing.T, pool string) []unstructured.Unstructured {
	t.Helper()
	list, err := objects.Resource(nodeClaims).List(context.WithoutCancel(t.Context()), metav1.ListOptions{LabelSelector: ofPool + "=" + pool})
	require.NoError(t, err)
	return list.Items
}

// changePool changes a NodePool as an operator does.
func changePool(t *testing.T, name string, patch map[string]any) {
	t.Helper()
	nodekeep.MustKubectl(t, "patch", "nodepool", name, "--type=merge", "-p", string(harness.MustJSON(t, patch)))
}

// claim waits until a NodePool has a NodeClaim with this condition, which is not the other one, and returns it.
func claim(t *testing.T, pool, kind, status, other string) (found *unstructured.Unstructured) {
	t.Helper()
	var seen []string
	harness.Eventually(t, func() bool {
		seen = nil
		for _, item := range claims(t, pool) {
			seen = append(seen, item.GetName()+" "+condition(&item, kind))
			if item.GetName() != other && condition(&item, kind) == status {
				found = &item
				return true
			}
		}
		return false
	}, harness.Settles, 100*time.Millisecond, "a NodeClaim of %s must come to have %s: %s; there are %v", pool, kind, status, &seen)
	return found
}

// driftedSince returns when Karpenter found that a NodeClaim differs from its NodePool.
func driftedSince(t *testing.T, item *unstructured.Unstructured) time.Time {
	t.Helper()
	conditions, _, err := unstructured.NestedSlice(item.Object, "status", "conditions")
	require.NoError(t, err)
	i := slices.IndexFunc(conditions, func(c any) bool { return c.(map[string]any)["type"] == drifted })
	require.GreaterOrEqual(t, i, 0)
	since, err := time.Parse(time.RFC3339, conditions[i].(map[string]any)["lastTransitionTime"].(string))
	require.NoError(t, err)
	return since
}

// nodeOf returns the Node of a NodeClaim.
func nodeOf(t *testing.T, item *unstructured.Unstructured) *corev1.Node {
	t.Helper()
	name, _, _ := unstructured.NestedString(item.Object, "status", "nodeName")
	return nodekeep.Node(t, name)
}

// block returns the one YAML block of the section about Karpenter of a page.
func block(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(), "docs", page))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Karpenter\n")
	require.True(t, found, page)
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(section, -1)
	require.Len(t, blocks, 1, page)
	return blocks[0][1]
}

// section returns the patch that changes one field of the spec as a block of the docs does.
func section(t *testing.T, text, field string) map[string]any {
	t.Helper()
	var object struct{ Spec map[string]any }
	require.NoError(t, yaml.Unmarshal([]byte(text), &object))
	require.Contains(t, object.Spec, field)
	return map[string]any{"spec": map[string]any{field: object.Spec[field]}}
}

func TestARuleChangesTheNodesOfANodePoolInPlace(t *testing.T) {
	pool, rules, found := strings.Cut(block(t, "platforms.md"), "---\n")
	require.True(t, found, "the NodePool and the policy")
	budgets, template := section(t, pool, "disruption"), section(t, pool, "template")
	start := section(t, block(t, "verification.md"), "template")
	taints, _, err := unstructured.NestedSlice(start, "spec", "template", "spec", "startupTaints")
	require.NoError(t, err)
	taints = taints[:1] // the gate

	startKarpenter(t)
	playKubelets(t)
	makePool(t, "general", 2, map[string]any{"startupTaints": taints})
	watcher := nodekeep.WatchNodes(t)
	makePool(t, "free", 2, map[string]any{"startupTaints": taints})
	run(t, "general", map[string]string{ofPool: "general"}, "example.com/batch")
	run(t, "free", map[string]string{ofPool: "free"})
	free := claim(t, "free", initialized, isReady, "")
	assert.Equal(t, nodeOf(t, free).Name, bound(t, "free"), "no empty Node, which Karpenter would replace first")
	first := claim(t, "general", initialized, isReady, "")
	node := nodeOf(t, first)
	assert.Equal(t, node.Name, bound(t, "general"))
	gated := slices.ContainsFunc(watcher.States(node.Name), func(s harness.State) bool { return harness.Gated(s.Node) })
	assert.True(t, gated, "Karpenter adds the gate when it registers the Node, and capture has removed it")
	assert.False(t, harness.Gated(node))
	assert.Equal(t, "general", node.Labels["example.com/tier"], "of the template")

	// same says that Karpenter has replaced nothing: the NodePool has the one NodeClaim and the one Node.
	same := func(t *testing.T, why string) {
		t.Helper()
		var names []string
		for _, item := range claims(t, "general") {
			names = append(names, item.GetName())
		}
		assert.Equal(t, []string{first.GetName()}, names, why)
		assert.Equal(t, node.UID, nodekeep.Node(t, node.Name).UID, why)
	}
	// setTemplate changes the NodePool. Karpenter compares each time, so its answer is about all that the Node has then.
	setTemplate := func(t *testing.T, patch map[string]any, says string) {
		t.Helper()
		changePool(t, "general", patch)
		claim(t, "general", drifted, says, "")
	}
	labelsOf := func(value any) map[string]any {
		return map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"example.com/probe": value}}}}}
	}

	t.Run("a budget keeps Karpenter from replacing what it counts as drifted", func(t *testing.T) {
		changePool(t, "general", budgets)
		setTemplate(t, labelsOf("a"), byTemplate)
		setTemplate(t, labelsOf(nil), "")
		same(t, "the budgets are no drift, and none is replaced")
	})
	t.Run("an operator and rules change the Node, and nothing drifts", func(t *testing.T) {
		nodekeep.Label(t, node.Name, map[string]string{"example.com/owner": "team-a", "node-role.kubernetes.io/batch": ""})
		nodekeep.Taint(t, node.Name, "example.com/held:NoSchedule")
		nodekeep.SetPolicy(t, "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\n"+rules)
		nodekeep.AcceptRules(t)
		nodekeep.RenewPolicy(t)
		harness.Eventually(t, func() bool {
			current := nodekeep.Node(t, node.Name)
			return current.Labels["example.com/tier"] == "batch" && harness.Carries(current, "example.com/batch:NoSchedule")
		}, harness.Settles, 50*time.Millisecond, "the rules must change label and taint of the Node that exists")
		current := nodekeep.Node(t, node.Name)
		assert.Equal(t, "team-a", current.Labels["example.com/owner"])
		assert.True(t, harness.Carries(current, "example.com/held:NoSchedule"))
		setTemplate(t, labelsOf("a"), byTemplate)
		setTemplate(t, labelsOf(nil), "") // Karpenter has compared again, with all of that on the Node
		same(t, "neither is drift")
		assert.Equal(t, "batch", nodekeep.Node(t, node.Name).Labels["example.com/tier"], "Karpenter does not set the template's label back")
		nodekeep.Untaint(t, node.Name, "example.com/held:NoSchedule")
	})
	t.Run("the template says the same for new Nodes", func(t *testing.T) {
		setTemplate(t, template, byTemplate)
		// Karpenter replaces what drifted first, if a budget does not keep it from that: here the Node of general, by more than a second.
		require.Len(t, claims(t, "general"), 1)
		since := driftedSince(t, &claims(t, "general")[0])
		harness.Eventually(t, func() bool { return time.Since(since) > 2*time.Second }, harness.Settles, 100*time.Millisecond)
		changePool(t, "free", labelsOf("a"))
		harness.Eventually(t, func() bool {
			now := claims(t, "free")
			return len(now) == 1 && now[0].GetName() != free.GetName() && condition(&now[0], initialized) == isReady
		}, harness.Settles, 200*time.Millisecond, "a NodePool without the budget has its Node replaced")
		same(t, "it is drift, and the budget holds")
	})
	t.Run("a Node expires whatever the budgets are", func(t *testing.T) {
		makePool(t, "expires", 2, map[string]any{"startupTaints": taints, "expireAfter": "30s"})
		changePool(t, "expires", map[string]any{"spec": map[string]any{"disruption": map[string]any{"budgets": []any{map[string]any{"nodes": "0"}}}}})
		run(t, "expires", map[string]string{ofPool: "expires"})
		expires := claim(t, "expires", initialized, isReady, "")
		harness.Eventually(t, func() bool {
			return !slices.ContainsFunc(claims(t, "expires"), func(item unstructured.Unstructured) bool { return item.GetName() == expires.GetName() })
		}, harness.Settles, 200*time.Millisecond, "expireAfter knows no budget")
	})
	t.Run("startup taints are drift although the Node lost them long ago", func(t *testing.T) {
		more := append(slices.Clone(taints), map[string]any{"key": "nodekeep.dev/unverified", "effect": "NoSchedule"})
		startup := func(taints []any) map[string]any {
			return map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"startupTaints": taints}}}}
		}
		undo := map[string]any{"spec": map[string]any{"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"example.com/tier": "general"}}, "spec": map[string]any{"taints": nil},
		}}}
		setTemplate(t, undo, "")
		setTemplate(t, startup(more), byTemplate)
		assert.NotContains(t, harness.TaintsOf(nodekeep.Node(t, node.Name)), "nodekeep.dev/unverified:NoSchedule", "no Node that exists has it")
		setTemplate(t, startup(taints), "")
		setTemplate(t, template, byTemplate)
		same(t, "the budget holds")
	})
	t.Run("without the budget Karpenter replaces the Node, and the new one has label and taint in its CREATE", func(t *testing.T) {
		changePool(t, "general", map[string]any{"spec": map[string]any{"disruption": map[string]any{"budgets": []any{map[string]any{"nodes": "100%"}}}}})
		second := claim(t, "general", initialized, isReady, first.GetName())
		created := watcher.States(nodeOf(t, second).Name)[0]
		assert.Equal(t, "batch", created.Labels["example.com/tier"])
		assert.True(t, harness.Carries(created.Node, "example.com/batch:NoSchedule"))
		require.Eventually(t, func() bool {
			_, err := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{})
			return err != nil
		}, harness.Settles, 200*time.Millisecond, "the old Node goes")
	})
}

func TestKarpenterWaitsForATaintWhoseKeyItKnows(t *testing.T) {
	startKarpenter(t)
	playKubelets(t)
	nodekeep.SetPolicy(t, policytest.Manifest(`taints:
  register:
  - {taint: "readiness.k8s.io/nodekeep:NoSchedule", nodeSelector: `+ofPool+`=known}
  rules:
  - {taint: "example.com/unknown:NoSchedule", selector: `+ofPool+`=unknown}
`))
	makePool(t, "known", 3, nil)
	makePool(t, "unknown", 3, nil)
	run(t, "known", map[string]string{ofPool: "known"})
	run(t, "unknown", map[string]string{ofPool: "unknown"})

	waits := claim(t, "known", initialized, waitsForKey, "")
	one := claim(t, "unknown", initialized, isReady, "")
	assert.True(t, harness.Carries(nodeOf(t, one), "example.com/unknown:NoSchedule"), "the Node counts as complete, and takes no pod")
	harness.Eventually(t, func() bool {
		made := claims(t, "unknown")
		return len(made) == 3 && !slices.ContainsFunc(made, func(item unstructured.Unstructured) bool { return condition(&item, initialized) != isReady })
	}, harness.Settles, 200*time.Millisecond, "Karpenter makes Nodes up to the limits of the NodePool")

	assert.Len(t, claims(t, "known"), 1, "Karpenter has waited meanwhile, and made no second Node")
	nodekeep.Untaint(t, nodeOf(t, waits).Name, "readiness.k8s.io/nodekeep:NoSchedule")
	claim(t, "known", initialized, isReady, "")
	assert.Equal(t, nodeOf(t, waits).Name, bound(t, "known"))
	assert.Len(t, claims(t, "known"), 1)
}
