package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

func TestWhatEachPlatformKeepsIsWhatItsTableSays(t *testing.T) {
	for _, name := range platformNames(t) {
		t.Run(name, func(t *testing.T) {
			requireTable(t, name, tableOf(readPlatform(t, name).play(t)))
		})
	}
	t.Run("the page of the docs leads to each table", requireLinks)
}

// play registers the Node and lets others set their labels. Then another machine takes its name. What the new machine has must agree with what
// nodekeep explains of the old one, before the Node is deleted.
func (p platform) play(t *testing.T) []row {
	t.Helper()
	old := p.register(t, "first")
	for _, manager := range slices.Sorted(maps.Keys(p.By)) {
		p.label(t, manager)
	}
	nodekeep.WaitRestored(t, p.Name, nil)
	p.requireReadable(t)
	explained := explain(t, p.Name)
	kept := map[string]string{}
	for _, item := range explained {
		if item.OnNode != nil && item.Kept {
			kept[item.Item] = *item.OnNode
		}
	}
	nodekeep.WaitRecorded(t, old, kept)

	nodekeep.DeleteNode(t, p.Name)
	registered := p.register(t, "second")
	labels, _ := record.Split(kept)
	maps.DeleteFunc(labels, func(key, _ string) bool { _, brought := p.Kubelet[key]; return brought })
	shown := itemsOf(nodekeep.WaitRestored(t, p.Name, labels))
	brought := itemsOf(p.registration("second"))
	var rows []row
	for _, item := range explained {
		if item.OnNode == nil || record.IsTaint(item.Item) && ofNodeLifecycle(item.Item) { // the API server adds that taint to every new Node
			continue
		}
		tail := absent
		if current, ok := brought[item.Item]; ok {
			assert.Equal(t, current, shown[item.Item], "%s: the kubelet's value stays", item.Item)
			tail = fromKubelet
		} else if item.Kept {
			assert.Contains(t, shown, item.Item, "it is kept")
			assert.Equal(t, *item.OnNode, shown[item.Item], item.Item)
			tail = restored
		} else {
			assert.NotContains(t, shown, item.Item, "it is not kept")
		}
		managers := item.Managers
		if record.IsTaint(item.Item) { // managedFields have one owner of all taints
			managers = []string{p.kubelet()}
		}
		rows = append(rows, row{item: item.Item, by: managers, kept: item.Kept, reason: item.Why, tail: tail})
	}
	nodekeep.WaitRecorded(t, registered, kept)
	nodekeep.DeleteNode(t, p.Name)
	nodekeep.Command(t, "", "", "forget", p.Name, "--yes").RequireDone(t)
	return rows
}

// label sets the labels of a manager. A label that another manager has set to the same value is applied, so that both own it.
func (p platform) label(t *testing.T, manager string) {
	t.Helper()
	annotations, shared := map[string]string{}, map[string]string{}
	shown := nodekeep.Node(t, p.Name).Labels
	for key, value := range p.By[manager] {
		if found, ok := shown[key]; ok && found == value {
			shared[key] = value
		} else {
			annotations[key] = value
		}
	}
	nodes := nodekeep.Admin.CoreV1().Nodes()
	if len(annotations) > 0 {
		body := harness.MustJSON(t, map[string]any{"metadata": map[string]any{"labels": annotations}})
		_, err := nodes.Patch(t.Context(), p.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
		require.NoError(t, err)
	}
	if len(shared) > 0 {
		body := harness.MustJSON(t, map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": p.Name, "labels": shared}})
		_, err := nodes.Patch(t.Context(), p.Name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: manager})
		require.NoError(t, err)
	}
}

func TestALabelOfAPlatformCanHaveTwoManagers(t *testing.T) {
	p := platform{
		Name: "two-managers-1", Kubelet: map[string]string{"pool": "a"}, Taints: []corev1.Taint{},
		By: map[string]map[string]string{"kubectl": {"pool": "a", "rack": "r1"}, "vendor-controller": {"rack": "r1"}},
	}
	managers := map[string][]string{}
	for _, r := range p.play(t) {
		managers[r.item] = r.by
	}
	assert.Equal(t, []string{"kubectl", "kubelet"}, managers["pool"])
	assert.Equal(t, []string{"kubectl", "vendor-controller"}, managers["rack"])
}

func (p platform) kubelet() string {
	if p.KubeletManager != "" {
		return p.KubeletManager
	}
	return policy.Kubelet
}

// register sends the kubelet's CREATE from a machine.
func (p platform) register(t *testing.T, machine string) *corev1.Node {
	t.Helper()
	node, err := nodekeep.Kubelet(t, p.Name).CoreV1().Nodes().Create(t.Context(), p.registration(machine), metav1.CreateOptions{FieldManager: p.kubelet()})
	require.NoError(t, err, "a kubelet must always be able to register its Node")
	return node
}

func (p platform) registration(machine string) *corev1.Node {
	node := harness.Registration(p.Name)
	maps.DeleteFunc(node.Labels, func(key, _ string) bool { return key != corev1.LabelHostname })
	maps.Copy(node.Labels, p.Kubelet)
	node.Annotations, node.Spec.Taints = p.Annotations, p.Taints
	node.Status.NodeInfo.MachineID += "-" + machine
	node.Status.NodeInfo.SystemUUID += "-" + machine
	if p.ProviderID != "" {
		node.Spec.ProviderID = p.ProviderID + "-" + machine
	}
	return node
}

func itemsOf(node *corev1.Node) map[string]string {
	return policy.ItemsOf(node.Labels, node.Spec.Taints, false)
}

// explained is an item in the answer of nodekeep explain.
type explained struct {
	Item     string
	OnNode   *string
	Managers []string
	Kept     bool
	Why      string
}

// explain returns what the command says of each label and taint of a Node.
func explain(t *testing.T, node string) []explained {
	t.Helper()
	var answer struct{ Items []explained }
	out := nodekeep.Command(t, "", "", "explain", node, "-o", "json").RequireDone(t).Out
	require.NoError(t, json.Unmarshal([]byte(out), &answer))
	require.NotEmpty(t, answer.Items)
	return answer.Items
}

// requireReadable makes a platform file of the Node that is there, as the package comment shows. It must have what the Node was made of.
func (p platform) requireReadable(t *testing.T) {
	t.Helper()
	node := nodekeep.MustKubectl(t, "get", "node", p.Name, "-o", "json", "--show-managed-fields")
	var out, warnings bytes.Buffer
	require.NoError(t, run([]string{p.Name}, strings.NewReader(node), &out, &warnings))
	assert.Empty(t, warnings.String())
	want := p
	want.Title, want.ProviderID, want.Annotations, want.Taints = "", providerIDOf(p.ProviderID, p.Name), map[string]string{}, slices.Clone(p.Taints)
	for key, value := range p.Annotations {
		want.Annotations[key] = annotationValue(key, value)
	}
	record.SortTaints(want.Taints)
	content, err := want.file()
	require.NoError(t, err)
	assert.Equal(t, string(content), out.String())
}

// platformNames returns the platforms of testdata, sorted. Each has its file and its table, and nothing else is there.
func platformNames(t *testing.T) (names []string) {
	t.Helper()
	files, err := os.ReadDir("testdata")
	require.NoError(t, err)
	for _, file := range files {
		if name, ok := strings.CutSuffix(file.Name(), ".json"); ok {
			names = append(names, name)
		}
	}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), filepath.Ext(file.Name()))
		assert.True(t, slices.Contains(names, name) && slices.Contains([]string{".json", ".md"}, filepath.Ext(file.Name())), "testdata/%s belongs to no platform", file.Name())
	}
	require.NotEmpty(t, names)
	return names
}

func readPlatform(t *testing.T, name string) (p platform) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	require.NoError(t, err)
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&p), name)
	return p
}
