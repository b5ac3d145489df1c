package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

// A label that the webhook restores, and one that capture restores behind the gate.
const plain, protected = "example.com/in-git", "node-role.kubernetes.io/in-git"

// wayToApply is how a GitOps tool applies a Node's labels.
type wayToApply struct {
	flags []string
	// forgets says that the first apply after the Node has registered again drops nothing. What the tool applied last stands in an annotation
	// of the Node, which no policy can keep.
	forgets bool
}

// The rows of the table in docs/labels-in-git.md.
func waysToApply() map[string]wayToApply {
	return map[string]wayToApply{
		"server-side with force":    {flags: []string{"--server-side", "--force-conflicts", "--field-manager=kustomize-controller"}},
		"server-side without force": {flags: []string{"--server-side", "--field-manager=argocd-controller"}},
		"client-side":               {flags: []string{"--field-manager=argocd-controller"}, forgets: true},
	}
}

// apply is what the tool does with a Node that Git declares with these labels.
func (w wayToApply) apply(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "node.json")
	declared := harness.MustJSON(t, map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name, "labels": labels}})
	require.NoError(t, os.WriteFile(file, declared, 0o600))
	nodekeep.MustKubectl(t, append([]string{"apply", "-f", file}, w.flags...)...)
}

// hold returns what a tool can do with its labels: who holds a third client off, and what is left of labels that it drops and changes.
func (w wayToApply) hold(t *testing.T, name string) (current map[string]string) {
	t.Helper()
	current = map[string]string{}
	for _, key := range []string{plain, protected} {
		file := filepath.Join(t.TempDir(), "other.json")
		require.NoError(t, os.WriteFile(file, harness.MustJSON(t, map[string]any{
			"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name, "labels": map[string]string{key: "third"}},
		}), 0o600))
		says, err := nodekeep.Kubectl(t.Context(), "apply", "--server-side", "--field-manager=third", "-f", file)
		require.Error(t, err, says)
		_, says, _ = strings.Cut(says, `with "`)
		current["a third client's "+key+" conflicts with"], _, _ = strings.Cut(says, `"`)
	}
	labels := func(filter string) map[string]string {
		node := nodekeep.Node(t, name)
		return map[string]string{filter + plain: node.Labels[plain], filter + protected: node.Labels[protected]}
	}
	w.apply(t, name, map[string]string{})
	maps.Copy(current, labels("once dropped: "))
	w.apply(t, name, map[string]string{plain: "b", protected: "b"})
	maps.Copy(current, labels("once changed: "))
	w.apply(t, name, map[string]string{plain: "b"})
	maps.Copy(current, labels("once one is dropped: "))
	return current
}

func TestAGitOpsToolHoldsItsLabelsOnANodeThatHasRegisteredAgain(t *testing.T) {
	declared := map[string]string{plain: "a", protected: "a"}
	i := 0
	for way, w := range waysToApply() {
		for replacement, register := range map[string]func(t testing.TB, fn func()){
			"with the webhook":    func(_ testing.TB, fn func()) { fn() },
			"without the webhook": nodekeep.WithoutWebhook,
		} {
			i++
			t.Run(way+", "+replacement, func(t *testing.T) {
				name, head := fmt.Sprintf("in-git-%d", i), fmt.Sprintf("in-git-%d-before", i)
				nodekeep.Register(t, head)
				w.apply(t, head, declared)
				want := w.hold(t, head)

				nodekeep.Register(t, name)
				w.apply(t, name, declared)
				nodekeep.WaitRecordedAtLeast(t, nodekeep.Node(t, name), declared)
				nodekeep.DeleteNode(t, name)
				nodekeep.WaitDeletionRecorded(t, name)
				register(t, func() {
					nodekeep.RegisterNode(t, harness.Registration(name))
					nodekeep.WaitRestored(t, name, declared)
				})
				if w.forgets {
					want["once dropped: "+plain], want["once dropped: "+protected] = "a", "a"
				}
				assert.Equal(t, want, w.hold(t, name))
				recordComes(t, name, func(r record.Record) bool { return maps.Equal(r.Items(), map[string]string{plain: "b"}) })
			})
		}
	}
}

// handedOver waits until nodekeep owns no label of a Node: without a gate, that is a PATCH after the one that restores them.
func handedOver(t *testing.T, name string) (node *corev1.Node) {
	t.Helper()
	harness.Eventually(t, func() bool {
		node = nodekeep.Node(t, name)
		return !slices.ContainsFunc(node.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
			return entry.Manager == observe.FieldManager && strings.Contains(entry.FieldsV1.GetRawString(), `"f:labels"`)
		})
	}, settles, 10*time.Millisecond, "nodekeep still owns labels of node %s", name)
	return node
}

// managersOf returns managedFields of a Node without times, without what nodekeep's own annotations and taints are, sorted.
func managersOf(t *testing.T, node *corev1.Node) (managers []string) {
	t.Helper()
	for _, entry := range node.ManagedFields {
		if entry.Manager == observe.FieldManager {
			for _, key := range []string{"f:labels", `"f:example.com`} {
				require.NotContains(t, entry.FieldsV1.GetRawString(), key, "nodekeep owns none of it")
			}
			continue
		}
		var fields map[string]any
		text := strings.ReplaceAll(entry.FieldsV1.GetRawString(), `".":{},`, "") // the map itself is of the client that made its first entry
		require.NoError(t, json.Unmarshal([]byte(text), &fields))
		managers = append(managers, fmt.Sprint(entry.Manager, " ", entry.Operation, " ", entry.Subresource, " ", entry.APIVersion, " ", entry.FieldsType, " ", fields))
	}
	slices.Sort(managers)
	return managers
}

func TestAKubeletThatForgesOwnersOwnsNothingWhenItRegistersAgain(t *testing.T) {
	const name = "forged-owners"
	tool := waysToApply()["server-side with force"]
	for lie, fields := range map[string]any{
		"it empties them": []any{map[string]any{}},
		"it names itself": []any{map[string]any{
			"manager": "kubelet", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
			"fieldsV1": map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{"f:" + protected: map[string]any{}, "f:" + plain: map[string]any{}}}},
		}},
	} {
		t.Run(lie, func(t *testing.T) {
			nodekeep.Register(t, name)
			tool.apply(t, name, map[string]string{plain: "a", protected: "a"})
			nodekeep.WaitRecordedAtLeast(t, nodekeep.Node(t, name), map[string]string{plain: "a", protected: "a"})
			prev := nodekeep.MustRecord(t, name)
			_, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType,
				harness.MustJSON(t, map[string]any{"metadata": map[string]any{"managedFields": fields}}), metav1.PatchOptions{FieldManager: "kubelet"})
			require.NoError(t, err)
			nodekeep.Label(t, name, map[string]any{"example.com/after": "1"})
			nodekeep.WaitRecordedAtLeast(t, nodekeep.Node(t, name), map[string]string{"example.com/after": "1", protected: "a"})
			nodekeep.DeleteNode(t, name)
			nodekeep.WaitDeletionRecorded(t, name)
			former, _ := prev.Entry(protected)
			current, _ := nodekeep.MustRecord(t, name).Entry(protected)
			require.Equal(t, former.Owners, current.Owners)

			nodekeep.RegisterNode(t, harness.Registration(name))
			returned := nodekeep.WaitRestored(t, name, map[string]string{protected: "a"})
			for _, entry := range returned.ManagedFields {
				if entry.Manager == "kubelet" {
					assert.NotContains(t, entry.FieldsV1.GetRawString(), protected)
				}
			}
			tool.apply(t, name, map[string]string{})
			assert.NotContains(t, nodekeep.Node(t, name).Labels, protected, "the tool drops it")
			nodekeep.DeleteNode(t, name)
		})
	}
}

func TestManagedFieldsAreTheSameOnANodeThatHasRegisteredAgain(t *testing.T) {
	withPolicy(t, annotationsPolicy, func() {
		const nodes = 100
		names := make([]string, nodes)
		prev := make([][]string, nodes)
		want := map[string]string{}
		for i := range names {
			names[i] = fmt.Sprintf("managed-%d", i)
			nodekeep.Register(t, names[i])
			for pos, manager := range []string{"kubectl-label", "operator-a", "operator-b"} {
				key := "example.com/of-" + manager
				labels := map[string]string{key: "1", "node-role.kubernetes.io/" + manager: ""}
				maps.Copy(want, labels)
				change := map[string]any{"labels": labels}
				if pos == 0 {
					change["annotations"] = map[string]string{"a.example.com/note": "1"}
				}
				_, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), names[i], types.MergePatchType, harness.MustJSON(t, map[string]any{"metadata": change}), metav1.PatchOptions{FieldManager: manager})
				require.NoError(t, err)
			}
			for _, manager := range []string{"argocd-controller", "kustomize-controller"} { // which share a label
				labels := map[string]string{"example.com/of-" + manager: "1", "example.com/of-both": "1"}
				maps.Copy(want, labels)
				_, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), names[i], types.ApplyPatchType, harness.MustJSON(t, map[string]any{
					"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": names[i], "labels": labels},
				}), metav1.PatchOptions{FieldManager: manager})
				require.NoError(t, err)
			}
		}
		for i, name := range names {
			node := nodekeep.Node(t, name)
			prev[i] = managersOf(t, node)
			require.GreaterOrEqual(t, len(prev[i]), 6, "five managers and the kubelet: %v", prev[i])
			nodekeep.WaitRecordedAtLeast(t, node, want)
		}
		for _, name := range names {
			nodekeep.DeleteNode(t, name)
			nodekeep.WaitDeletionRecorded(t, name)
			nodekeep.RegisterNode(t, harness.Registration(name))
		}
		differ := 0
		for i, name := range names {
			updated := nodekeep.WaitRestored(t, name, want)
			if current := managersOf(t, updated); !slices.Equal(prev[i], current) {
				if differ++; differ == 1 {
					assert.Equal(t, prev[i], current, name)
				}
			}
		}
		assert.Zero(t, differ, "Nodes whose managedFields differ")
	})
}
