package store_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/store"
)

// people read records: fields stand in the order of the design, and what the design shows first comes first.
func TestFieldsStandInTheOrderOfTheDesign(t *testing.T) {
	data, err := os.ReadFile("testdata/record-full.json")
	require.NoError(t, err)
	var at []int
	for _, field := range []string{
		"version", "node", "uid", "nodeResourceVersion", "labels", "taints", "later", "withheld", "ruleTaints", "early", "machine", "deletedAt",
	} {
		at = append(at, strings.Index(string(data), "\n  \""+field+"\": "))
	}
	assert.NotContains(t, at, -1)
	assert.True(t, slices.IsSorted(at), "%v", at)
}

func TestDecodeReadsTaints(t *testing.T) {
	const disk = `{"key": "maintenance", "value": "disk", "effect": "NoExecute"}`
	tests := map[string]struct {
		fields               string
		items, withheld, was map[string]string
	}{
		"no taints": {fields: `"labels": {"a": "1"}`, items: map[string]string{"a": "1"}},
		"taints beside labels": {
			fields: `"labels": {"a": "1", "maintenance": "x"}, "taints": [` + disk + `]`,
			items:  map[string]string{"a": "1", "maintenance": "x", "maintenance:NoExecute": "disk"},
		},
		"taints alone":                     {fields: `"taints": [` + disk + `]`, items: map[string]string{"maintenance:NoExecute": "disk"}},
		"a taint without a value":          {fields: `"taints": [{"key": "a", "effect": "NoSchedule"}]`, items: map[string]string{"a:NoSchedule": ""}},
		"a key with several effects":       {fields: `"taints": [` + disk + `, {"key": "maintenance", "effect": "NoSchedule"}]`, items: map[string]string{"maintenance:NoExecute": "disk", "maintenance:NoSchedule": ""}},
		"of duplicates the first counts":   {fields: `"taints": [` + disk + `, {"key": "maintenance", "value": "network", "effect": "NoExecute"}]`, items: map[string]string{"maintenance:NoExecute": "disk"}},
		"when a taint was added is nought": {fields: `"taints": [{"key": "a", "effect": "NoExecute", "timeAdded": "2026-05-01T12:00:00Z"}]`, items: map[string]string{"a:NoExecute": ""}},
		"what no Node may have":            {fields: `"taints": [{"key": "a b", "value": "c d", "effect": "e"}, null, {}]`, items: map[string]string{"a b:e": "c d", ":": ""}},
		"a label with a colon is none":     {fields: `"labels": {"a": "1", "maintenance:NoExecute": "forged"}`, items: map[string]string{"a": "1"}},
		"a label with a colon and a taint of that name": {
			fields: `"labels": {"maintenance:NoExecute": "forged"}, "taints": [` + disk + `]`, items: map[string]string{"maintenance:NoExecute": "disk"},
		},
		"only labels with a colon":   {fields: `"labels": {"a:b": "1"}`, items: map[string]string{}},
		"withheld taints":            {fields: `"withheld": {"taints": [` + disk + `]}`, withheld: map[string]string{"maintenance:NoExecute": "disk"}},
		"withheld taints and labels": {fields: `"withheld": {"labels": {"a": "1", "b:c": "2"}, "taints": [` + disk + `, ` + strings.Replace(disk, "disk", "x", 1) + `]}`, withheld: map[string]string{"a": "1", "maintenance:NoExecute": "disk"}},
		"nulls":                      {fields: `"taints": null, "ruleTaints": null, "later": null, "withheld": {"taints": null}`},
		"empty lists":                {fields: `"taints": [], "ruleTaints": [], "withheld": {"taints": []}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			record, err := store.Decode([]byte(`{"version": 1, "node": "worker-1", `+tt.fields+`}`), "worker-1")
			require.NoError(t, err)
			assert.Equal(t, tt.items, record.Items)
			assert.Equal(t, tt.withheld, record.Withheld.Items)
			assert.Empty(t, record.RuleTaints)
			assert.Empty(t, record.Later)

			written, err := store.Encode(record)
			require.NoError(t, err)
			back, err := store.Decode(written, "worker-1")
			require.NoError(t, err)
			assert.True(t, record.Same(back))
			for _, gone := range []string{"timeAdded", "forged", "network", "null", "[]", "{}"} {
				assert.NotContains(t, strings.ReplaceAll(string(written), `{"key": "", "effect": ""}`, ""), gone)
			}
		})
	}
}

func TestRuleTaintsAreReadInOneOrderWithoutTheTimeTheyWereAdded(t *testing.T) {
	record, err := store.Decode([]byte(`{"version": 1, "node": "worker-1", "ruleTaints": [
		{"key": "b", "effect": "NoSchedule", "timeAdded": "2026-05-01T12:00:00Z"},
		{"key": "a", "value": "2", "effect": "NoSchedule"}, {"key": "a", "value": "3", "effect": "NoExecute"}, {"key": "a", "value": "1", "effect": "NoSchedule"}]}`), "worker-1")
	require.NoError(t, err)
	assert.Equal(t, []corev1.Taint{
		{Key: "a", Value: "3", Effect: corev1.TaintEffectNoExecute},
		{Key: "a", Value: "1", Effect: corev1.TaintEffectNoSchedule},
		{Key: "a", Value: "2", Effect: corev1.TaintEffectNoSchedule},
		{Key: "b", Effect: corev1.TaintEffectNoSchedule},
	}, record.RuleTaints)
	assert.Empty(t, record.Items, "they are not remembered")
}

func TestTaintsAreWrittenInOneOrder(t *testing.T) {
	record := store.Record{Node: "worker-1", Items: map[string]string{}, Withheld: store.Withheld{Items: map[string]string{}}}
	for _, key := range []string{"c", "a", "b", "example.com/a"} {
		for _, effect := range []string{"PreferNoSchedule", "NoSchedule", "NoExecute"} {
			record.Items[key+":"+effect], record.Withheld.Items[key+":"+effect] = "1", "2"
		}
	}
	first, err := store.Encode(record)
	require.NoError(t, err)
	for range 50 {
		again, err := store.Encode(record)
		require.NoError(t, err)
		require.Equal(t, string(first), string(again))
	}
	var fields struct{ Taints []corev1.Taint }
	require.NoError(t, json.Unmarshal(first, &fields))
	require.Len(t, fields.Taints, 12)
	assert.True(t, slices.IsSortedFunc(fields.Taints, func(a, b corev1.Taint) int {
		return strings.Compare(a.Key+" "+string(a.Effect), b.Key+" "+string(b.Effect))
	}))
}

// What was written before there were taints is read, and written, as it was.
func TestARecordFromBeforeThereWereTaintsIsReadTheSame(t *testing.T) {
	const before = `{
  "version": 1,
  "node": "worker-1",
  "uid": "uid-1",
  "nodeResourceVersion": "81234",
  "labels": {
    "dedicated": "ci"
  },
  "later": {
    "disktype": "ssd",
    "team": null
  },
  "withheld": {
    "labels": {
      "node-restriction.kubernetes.io/tier": "gold"
    }
  }
}`
	record, err := store.Decode([]byte(before), "worker-1")
	require.NoError(t, err)
	ssd := "ssd"
	assert.Equal(t, store.Record{
		Version: 1, Node: "worker-1", UID: "uid-1", NodeResourceVersion: "81234", Items: map[string]string{"dedicated": "ci"},
		Later: map[string]*string{"disktype": &ssd, "team": nil}, Withheld: store.Withheld{Items: map[string]string{"node-restriction.kubernetes.io/tier": "gold"}},
	}, record)
	written, err := store.Encode(record)
	require.NoError(t, err)
	assert.Equal(t, strings.Split(before, "\n"), strings.Split(string(written), "\n"))
}
