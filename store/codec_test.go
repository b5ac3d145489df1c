package store_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestEncodeWritesTheGoldenFiles(t *testing.T) {
	full := store.Record{
		Node: "worker-1", UID: "4a8c6f1e-6d1b-4b0e-9d3a-0f6f0c5d7a21", NodeResourceVersion: "81234",
		Items:    map[string]string{"node-role.kubernetes.io/worker": "", "dedicated": "ci"},
		Withheld: store.Withheld{Items: map[string]string{"node-restriction.kubernetes.io/tier": "gold"}},
	}
	gone := full
	gone.DeletedAt = &metav1.Time{Time: time.Date(2026, 5, 1, 14, 0, 0, 0, time.FixedZone("CEST", 2*60*60))}
	ssd := "ssd"
	everything := full
	everything.Items = map[string]string{
		"node-role.kubernetes.io/worker": "", "dedicated": "ci",
		"maintenance:NoExecute": "disk", "maintenance:NoSchedule": "", "example.com/rack:PreferNoSchedule": "r7",
	}
	everything.Later = map[string]*string{"disktype": &ssd, "dedicated": nil, "maintenance:NoExecute": nil, "team:NoSchedule": &ssd}
	everything.LaterVersions = map[string]string{"disktype": "81240", "dedicated": "81240", "maintenance:NoExecute": "81251"}
	everything.Withheld = store.Withheld{Items: map[string]string{"node-restriction.kubernetes.io/tier": "gold", "team:NoExecute": "b", "team:NoSchedule": ""}}
	everything.RuleTaints = []corev1.Taint{
		{Key: "dedicated", Value: "ci", Effect: corev1.TaintEffectNoSchedule},
		{Key: "node-role.kubernetes.io/worker", Effect: corev1.TaintEffectNoSchedule},
	}
	everything.Early = true
	everything.Machine = store.Machine{ProviderID: "aws:///eu-1a/i-0a1b2c3d", SystemUUID: "4c4c4544-0051-3510-8052-b4c04f4d3132", MachineID: "2d3f7a0e4b1c4c0f8a6e5d9b7c1a2f30"}
	everything.DeletedAt = gone.DeletedAt
	gpu, ci := "gpu", "ci"
	everything.History = []store.Change{
		{Number: 7, Time: *gone.DeletedAt, Actor: "kubectl-label", Items: map[string]store.Values{"dedicated": {From: &gpu, To: &ci}, "node-role.kubernetes.io/worker": {To: new(string)}}},
		{Number: 8, Time: *gone.DeletedAt, Omitted: 512},
		{Number: 9, Time: *gone.DeletedAt, Items: map[string]store.Values{"disktype": {From: &ssd}, "maintenance:NoSchedule": {To: new(string)}, "maintenance:NoExecute": {From: &ssd, To: &ci}}},
	}
	tests := map[string]struct {
		file   string
		record store.Record
	}{
		"a record of all there is":    {"record-full.json", everything},
		"a record":                    {"record.json", full},
		"a record of a Node gone":     {"record-gone.json", gone},
		"a record of next to nothing": {"record-bare.json", store.Record{Node: "worker-1"}},
	}
	files := map[string]bool{"record-next-version.json": true}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", tt.file)
			files[tt.file] = true
			got, err := store.Encode(tt.record)
			require.NoError(t, err)
			if *update {
				require.NoError(t, os.WriteFile(path, got, 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(want), string(got))
			back, err := store.Decode(want, "worker-1")
			require.NoError(t, err)
			assert.True(t, tt.record.Same(back))
			assert.Equal(t, tt.record.NodeResourceVersion, back.NodeResourceVersion)
			assert.Equal(t, changesOf(tt.record), changesOf(back))
		})
	}
	entries, err := os.ReadDir("testdata")
	require.NoError(t, err)
	for _, entry := range entries {
		assert.True(t, entry.IsDir() || files[entry.Name()], "nobody uses testdata/%s", entry.Name())
	}
}

func TestTheNextVersionIsReadAndWrittenBackWhole(t *testing.T) {
	data, err := os.ReadFile("testdata/record-next-version.json")
	require.NoError(t, err)
	record, err := store.Decode(data, "worker-1")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"dedicated": "ci"}, record.Items)
	assert.Equal(t, map[string]string{"disktype": "ssd"}, record.Withheld.Items)
	again, err := store.Encode(record)
	require.NoError(t, err)
	assert.JSONEq(t, string(data), string(again))

	changed := record
	changed.Items, changed.Withheld.Items = map[string]string{"dedicated": "gpu"}, nil
	rewritten, err := store.Encode(changed)
	require.NoError(t, err)
	want := strings.NewReplacer(`"dedicated": "ci"`, `"dedicated": "gpu"`, `"labels": {"disktype": "ssd"},`, ``).Replace(string(data))
	require.NotContains(t, want, "disktype")
	assert.JSONEq(t, want, string(rewritten))
	original, err := store.Encode(record)
	require.NoError(t, err)
	assert.JSONEq(t, string(data), string(original), "a changed copy leaves the record as it was")
}

func TestEncodeRefusesWhatIsTooLarge(t *testing.T) {
	labels := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprintf("%s/%s%07d", strings.Repeat("d", 253), strings.Repeat("n", 56), i)] = strings.Repeat("v", 63)
		}
		return m
	}
	large := store.Record{Node: "worker-1", Items: labels(500), Withheld: store.Withheld{Items: labels(500)}}
	data, err := store.Encode(large)
	require.NoError(t, err, "500 of the longest labels, each with a value that lost to the Node's")
	_, err = store.Decode(data, "worker-1")
	require.NoError(t, err, "what is written can be read")

	changed := map[string]store.Values{}
	for key := range large.Items {
		changed[key] = store.Values{To: new(string)}
	}
	large.History = []store.Change{
		{Number: 1, Time: metav1.Now(), Items: map[string]store.Values{"a": {To: new(string)}}}, {Number: 2, Time: metav1.Now(), Items: changed},
	}
	data, err = store.Encode(large)
	require.NoError(t, err, "its history gives way")
	read, err := store.Decode(data, "worker-1")
	require.NoError(t, err)
	require.Len(t, read.History, 1)
	assert.Equal(t, 2, read.History[0].Number, "which change was the last is not forgotten")
	assert.Equal(t, 500, read.History[0].Omitted)

	_, err = store.Encode(store.Record{Node: "worker-1", Items: labels(1500)})
	require.Error(t, err)
	assert.Regexp(t, `^encode record of node "worker-1": \d+ bytes are more than the 524288 that a record may have; let the policy keep fewer labels$`, err.Error())
}
