package record_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
)

func TestWhatAnOperatorForgetsIsNotBroughtBackByWhatWasBefore(t *testing.T) {
	prev := merged(shows("U1", 9, label, "r1", "tier", "gold", taint, "blue"))
	next := record.Forget(prev, []string{label, taint, "unknown"})
	assert.Equal(t, map[string]string{"tier": "gold"}, next.Items())
	assert.Len(t, prev.Items(), 3, "the record before is as it was")

	late := record.Merge(next, shows("U1", 7, label, "r0", "tier", "gold", taint, "blue"))
	assert.Equal(t, map[string]string{"tier": "gold"}, late.Items(), "an older state that a process was slow to merge")
	registered := shows("U2", 20, "tier", "gold")
	assert.Empty(t, record.Missing(record.Merge(late, registered), registered), "a new object of the name")

	assert.Equal(t, "r2", record.Merge(late, shows("U1", 10, label, "r2")).Items()[label], "a later decision of a client counts")
}

func TestARecordOfNoObjectForgetsWithoutATrace(t *testing.T) {
	r := record.Forget(record.Record{Node: "n", Entries: []record.Entry{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}}, []string{"a"})
	assert.Equal(t, []record.Entry{{Key: "b", Value: "2"}}, r.Entries)
}

func TestEmpty(t *testing.T) {
	tests := map[string]struct {
		fields string // of the record in addition to its version and Node
		want   bool
	}{
		"nothing":                          {``, true},
		"which objects there were":         {`, "uid": "1", "nodeResourceVersion": "5", "former": [{"uid": "0", "nodeResourceVersion": "2"}], "deletedAt": "2026-05-01T12:00:00Z"`, true},
		"the machine alone":                {`, "machine": {"systemUUID": "one"}`, true},
		"empty fields":                     {`, "labels": {}, "taints": [], "notShown": {"labels": {}}`, true},
		"only removals":                    {`, "uid": "1", "nodeResourceVersion": "5", "removed": {"a": "3"}`, true},
		"a label":                          {`, "labels": {"a": "1"}`, false},
		"a taint":                          {`, "taints": [{"key": "a", "effect": "NoSchedule"}]`, false},
		"a label that the Node lacks":      {`, "notShown": {"labels": {"a": "1"}}`, false},
		"a field of a later version":       {`, "ofTomorrow": null`, false},
		"a field of a later version, deep": {`, "notShown": {"ofTomorrow": 1}`, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := record.Decode([]byte(`{"version": 1, "node": "n1"` + tt.fields + `}`))
			require.NoError(t, err)
			assert.Equal(t, tt.want, r.Empty())
			r.Quarantined = &record.Record{Node: "n1"}
			assert.False(t, r.Empty(), "an operator has to decide")
		})
	}
}
