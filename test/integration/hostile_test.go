package integration

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// putRaw writes what is stored for a Node, whatever it is, and waits until the webhook has it.
func putRaw(t *testing.T, node, data string) {
	t.Helper()
	_ = nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Delete(t.Context(), store.Name(node), metav1.DeleteOptions{})
	createRaw(t, node, data)
	webhookHasRecords(t)
}

// createRaw stores this for a Node that has no record.
func createRaw(t *testing.T, node, data string) {
	t.Helper()
	_, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: store.Name(node), Labels: map[string]string{store.RecordLabel: "true"}},
		Data:       map[string]string{store.DataKey: data},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// createRecord stores a record for a Node that has none.
func createRecord(t *testing.T, r record.Record) {
	t.Helper()
	data, err := store.Encode(r)
	require.NoError(t, err)
	createRaw(t, r.Node, string(data))
}

// webhookHasRecords waits until the webhook has all records that the API server has: they come in order, so a good record
// that is written behind them and takes effect in a dry run proves it.
func webhookHasRecords(t *testing.T) {
	t.Helper()
	witness := fmt.Sprintf("witness-%d", time.Now().UnixNano())
	createRecord(t, record.New(witness, record.Object{}, map[string]string{"seen": "1"}))
	require.Eventually(t, func() bool {
		seen, err := nodekeep.Admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: witness}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && seen.Labels["seen"] == "1"
	}, settles, 20*time.Millisecond)
}

func TestNoRecordKeepsANodeOut(t *testing.T) {
	for name, c := range map[string]struct {
		record   string // %s is the Node's name
		restored map[string]string
		absent   []string
	}{
		"garbage":            {record: "}not json{"},
		"empty":              {record: ""},
		"wrong types":        {record: `{"version": 1, "node": "%s", "labels": ["a"]}`},
		"of another node":    {record: `{"version": 1, "node": "another", "labels": {"k": "v"}}`, absent: []string{"k"}},
		"of a later version": {record: `{"version": 3, "node": "%s", "labels": {"k": "v"}}`, absent: []string{"k"}},
		"of the next version, which is read additively": {
			record:   `{"version": 2, "node": "%s", "labels": {"k": "v"}, "new": {"field": 1}}`,
			restored: map[string]string{"k": "v"},
		},
		"with invalid keys and values next to good ones": {
			record: `{"version": 1, "node": "%s", "labels": {"good": "v", "bad key": "v", "a/b/c": "v", "t~x": "v", "/": "", "": "",
				"bad": "not a value!", "long": "` + strings.Repeat("x", 64) + `"}}`,
			restored: map[string]string{"good": "v"},
			absent:   []string{"bad key", "a/b/c", "t~x", "/", "", "bad", "long"},
		},
		"with what kubelets may never carry": {
			record:   `{"version": 1, "node": "%s", "labels": {"node-restriction.kubernetes.io/tier": "gold", "kubernetes.io/os": "plan9", "kops.k8s.io/x": "1", "k": "v"}}`,
			restored: map[string]string{"k": "v", "kubernetes.io/os": "linux"},
			absent:   []string{"node-restriction.kubernetes.io/tier", "kops.k8s.io/x"},
		},
		"with 500 labels":             {record: manyLabels(500), restored: map[string]string{"example.com/key-499": strings.Repeat("v", 63)}},
		"larger than a record may be": {record: manyLabels(6000), absent: []string{"example.com/key-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			node := "hostile-" + strings.NewReplacer(" ", "-", ",", "").Replace(name)
			data := c.record
			if strings.Contains(data, "%s") {
				data = fmt.Sprintf(data, node)
			}
			putRaw(t, node, data)
			returned := nodekeep.Register(t, node)
			assert.True(t, harness.HasAll(returned.Labels, c.restored), "%v", returned.Labels)
			for _, key := range c.absent {
				assert.NotContains(t, returned.Labels, key)
			}
		})
	}
}

func manyLabels(count int) string {
	var all strings.Builder
	for n := range count {
		fmt.Fprintf(&all, `%s"example.com/key-%d": "%s"`, map[bool]string{true: ", "}[n > 0], n, strings.Repeat("v", 63))
	}
	return `{"version": 1, "node": "%s", "labels": {` + all.String() + `}}`
}

func TestNoShapeOfNodeIsKeptOut(t *testing.T) {
	for name, c := range map[string]struct {
		node   string
		make   func(node *corev1.Node)
		taints map[string]string // of its own, which are recorded too
	}{
		"without labels":      {node: "shape-1", make: func(node *corev1.Node) { node.Labels = nil }},
		"without annotations": {node: "shape-2", make: func(node *corev1.Node) { node.Annotations = nil }},
		"with taints": {node: "shape-3", make: func(node *corev1.Node) {
			node.Spec.Taints = tainted("shape-3", "a:NoSchedule", gate, "b:NoExecute").Spec.Taints
		}, taints: map[string]string{"a:NoSchedule": "", "b:NoExecute": ""}},
		"with a forged stamp": {node: "shape-4", make: func(node *corev1.Node) {
			node.Annotations = map[string]string{policy.StampAnnotation: `{"given":{"dedicated":{"value":"ci"},"` + worker + `":{"value":""}}}`}
		}},
		"with annotations close to the limit": {node: "shape-5", make: func(node *corev1.Node) {
			node.Annotations = map[string]string{"example.com/big": strings.Repeat("x", 256<<10-len("example.com/big"))}
		}},
		"with a name of 253 characters": {node: longName(253), make: func(*corev1.Node) {}},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{"dedicated": "ci", worker: ""}
			nodekeep.RegisterRecorded(t, c.node, want)
			nodekeep.DeleteNode(t, c.node)
			node := harness.Registration(c.node)
			c.make(node)
			returned := nodekeep.RegisterNode(t, node)
			assert.Equal(t, "ci", returned.Labels["dedicated"])
			assert.True(t, policy.DefaultGate.Holds(returned.Spec.Taints))
			stamp, _ := record.ParseStamp(returned.Annotations[policy.StampAnnotation]) // there may be no room for one
			assert.NotContains(t, stamp.Given, worker)
			returned = nodekeep.WaitRestored(t, c.node, want)
			maps.Copy(want, c.taints)
			nodekeep.WaitRecorded(t, returned, want)
			assert.True(t, maps.Equal(c.taints, customTaints(returned)), "%v", harness.TaintsOf(returned))
		})
	}
}

// longName returns a Node name of that many characters. A kubelet's certificate takes 64 at most as its common name, so
// kubelets with longer names cannot exist, but Nodes can.
func longName(length int) string {
	return strings.Repeat(strings.Repeat("n", 60)+".", 5)[:length-1] + "n"
}

func TestAnUnreadableRecordKeepsTheGateUntilItIsMended(t *testing.T) {
	const name = "unreadable-1"
	putRaw(t, name, "}garbage{")
	returned := nodekeep.RegisterNode(t, tainted(name, gate))
	assert.True(t, policy.DefaultGate.Holds(returned.Spec.Taints), "a gate that is on stays on")
	nodekeep.WaitEvent(t, name, "RecordInvalid")
	assert.True(t, policy.DefaultGate.Holds(nodekeep.Node(t, name).Spec.Taints))

	cm := nodekeep.RecordMap(t, name)
	assert.Equal(t, "}garbage{", cm.Data[store.DataKey], "left as it is for an operator to look at")
	require.NoError(t, nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Delete(t.Context(), store.Name(name), metav1.DeleteOptions{}))
	nodekeep.WaitRestored(t, name, nil)
}

func TestAForeignConfigMapOfThatNameIsLeftAlone(t *testing.T) {
	const name = "foreign-1"
	client := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace)
	_, err := client.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: store.Name(name)}, Data: map[string]string{"theirs": "1"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	nodekeep.Register(t, name)
	nodekeep.Label(t, name, map[string]any{"dedicated": "ci"})
	nodekeep.WaitEvent(t, name, "RecordInvalid")
	cm, err := client.Get(t.Context(), store.Name(name), metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"theirs": "1"}, cm.Data)
}

func TestARecordThatLostItsLabelIsFoundAgain(t *testing.T) {
	const name = "unlisted-1"
	nodekeep.RegisterRecorded(t, name, map[string]string{"dedicated": "ci"})
	client := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace)
	_, err := client.Patch(t.Context(), store.Name(name), types.MergePatchType, []byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	harness.Eventually(t, func() bool {
		cm, err := client.Get(t.Context(), store.Name(name), metav1.GetOptions{})
		require.NoError(t, err)
		return cm.Labels[store.RecordLabel] == "true"
	}, settles, 20*time.Millisecond)
}
