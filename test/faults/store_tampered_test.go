package faults

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// overwrite replaces what is stored for a Node and leaves the rest of the ConfigMap.
func overwrite(t *testing.T, node, data string) {
	t.Helper()
	_, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Patch(t.Context(), store.Name(node), types.MergePatchType,
		mustJSON(t, map[string]any{"data": map[string]string{store.DataKey: data}}), metav1.PatchOptions{})
	require.NoError(t, err)
}

func stored(t *testing.T, node string) string {
	t.Helper()
	cm, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Get(t.Context(), store.Name(node), metav1.GetOptions{})
	require.NoError(t, err)
	return cm.Data[store.DataKey]
}

// untilSeen waits until the webhook has all records as they are now: they come in order, so a good one that is written behind
// them and takes effect in a dry run proves it.
func untilSeen(t *testing.T) {
	t.Helper()
	last := fmt.Sprintf("seen-%d", time.Now().UnixNano())
	body, err := store.Encode(record.New(last, record.Object{}, map[string]string{"seen": "1"}))
	require.NoError(t, err)
	records := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace)
	_, err = records.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: store.Name(last), Labels: map[string]string{store.RecordLabel: "true"}},
		Data:       map[string]string{store.DataKey: string(body)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		dry, err := nodekeep.Admin.CoreV1().Nodes().Create(t.Context(), registration(last, nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && dry.Labels["seen"] == "1"
	}, settles, 20*time.Millisecond, "the webhook must come to see a record")
	require.NoError(t, records.Delete(t.Context(), store.Name(last), metav1.DeleteOptions{}))
}

// What test/integration shows of records that cannot be read from the start is not repeated here: TestNoRecordKeepsANodeOut,
// TestAnUnreadableRecordKeepsTheGateUntilItIsMended, TestAForeignConfigMapOfThatNameIsLeftAlone and
// TestARecordThatLostItsLabelIsFoundAgain.
func TestARecordSpoiledUnderItsNodeIsLeftAsItIsAndCostsNothingOnceItIsMended(t *testing.T) {
	want := map[string]string{"dedicated": "ci", worker: ""}
	for _, c := range []struct {
		name, node string
		spoil      func(good, other string) string
	}{
		{"truncated", "truncated", func(good, _ string) string { return good[:len(good)/2] }},
		{"swapped with that of another Node", "swapped", func(_, other string) string { return other }},
		{"of almost 1 MiB", "huge", func(good, _ string) string { return good + strings.Repeat(" ", 1<<20-len(good)-1000) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			other := c.node + "-other"
			remembered(t, c.node, want)
			remembered(t, other, map[string]string{"dedicated": "gpu"})
			good, others := stored(t, c.node), stored(t, other)
			spoiled := c.spoil(good, others)
			overwrite(t, c.node, spoiled)
			if c.node == "swapped" {
				overwrite(t, other, good)
			}
			untilSeen(t)
			label(t, c.node, map[string]string{"edited": "1"})
			deleteNode(t, c.node)
			back := register(t, c.node)
			assert.NotContains(t, back.Labels, "dedicated", "nothing is restored from it")
			time.Sleep(300 * time.Millisecond)
			assert.True(t, gated(getNode(t, c.node)), "no workload comes onto the Node")
			assert.Equal(t, spoiled, stored(t, c.node), "it is left for a person to look at")

			started := time.Now()
			overwrite(t, c.node, good)
			if c.node == "swapped" {
				overwrite(t, other, others)
			}
			remembers(t, complete(t, c.node, want), want)
			t.Logf("whole %s after the record was mended; the edit made meanwhile went with the Node object", time.Since(started).Round(time.Millisecond))
			remembers(t, getNode(t, other), map[string]string{"dedicated": "gpu"})
			deleteNode(t, c.node)
			deleteNode(t, other)
		})
	}
}

func TestARecordOfTheNextVersionIsUsedAndItsUnknownFieldsSurviveARollback(t *testing.T) {
	const name = "rolled-back"
	remembered(t, name, map[string]string{"a": "1", worker: ""})
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(stored(t, name)), &fields))
	fields["version"], fields["invented"] = record.Format+1, map[string]any{"later": []any{"x"}}
	overwrite(t, name, string(mustJSON(t, fields)))

	label(t, name, map[string]string{"a": "2"})
	remembers(t, getNode(t, name), map[string]string{"a": "2", worker: ""})
	deleteNode(t, name)
	register(t, name)
	remembers(t, complete(t, name, map[string]string{"a": "2", worker: ""}), map[string]string{"a": "2", worker: ""})
	var after map[string]any
	require.NoError(t, json.Unmarshal([]byte(stored(t, name)), &after))
	assert.Equal(t, fields["invented"], after["invented"], "written back as it was read")
	assert.InDelta(t, record.Format+1, after["version"], 0)
	deleteNode(t, name)
}
