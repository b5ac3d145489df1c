package storetest

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// unreadable returns what a client may leave behind in the place of the record of a Node.
func unreadable(node string) []string {
	return []string{
		``,
		`{`,
		`null`,
		`[]`,
		`{"version": 1, "labels": {"dedicated": "ci"}}`,
		`{"version": 1, "node": "another-node", "labels": {"dedicated": "ci"}}`,
		`{"version": 1, "node": "` + strings.ToUpper(node) + `"}`,
		`{"node": "` + node + `"}`,
		`{"version": 0, "node": "` + node + `"}`,
		`{"version": ` + fmt.Sprint(record.Format+2) + `, "node": "` + node + `"}`,
		`{"version": 1, "node": "` + node + `", "labels": ["dedicated"]}`,
		`{"version": 1, "node": "` + node + `", "notShown": "everything"}`,
		`{"version": 1, "node": "` + node + `", "labels": {"dedicated": "ci"}, "taints": {"maintenance": "disk"}}`,
		`{"version": 1, "node": "` + node + `", "labels": {"dedicated": "ci"}, "taints": ["dedicated=ci:NoSchedule"]}`,
		`{"version": 1, "node": "` + node + `", "uid": "u", "nodeResourceVersion": 7}`,
		`{"version": 1, "node": "` + node + `", "note": "` + strings.Repeat("x", record.MaxBytes) + `"}`,
	}
}

func leavesUnreadable(s subject) {
	for i, data := range unreadable(s.node) {
		s.Tamper(s.node, []byte(data))
		s.unusable()
		prev, _ := s.GetFromAPI(s.t.Context(), s.node)
		s.conflicts(s.record("over it"), "")
		next, err := s.GetFromAPI(s.t.Context(), s.node)
		require.ErrorIs(s.t, err, store.ErrUnreadable)
		assert.Equal(s.t, prev.Version, next.Version, "number %d is as it was", i)
		s.Remove(s.node)
		s.lacks()
	}
	entry := s.put(s.record("ci"), "")
	s.Tamper(s.node, []byte("{"))
	s.conflicts(s.record("late"), entry.Version)
	s.unusable()
}

func readsMended(s subject) {
	s.Tamper(s.node, []byte("{"))
	s.unusable()
	s.Tamper(s.node, []byte(s.encoded(s.record("ci"))))
	s.becomes(nil)
	live, err := s.GetFromAPI(s.t.Context(), s.node)
	require.NoError(s.t, err)
	assert.Equal(s.t, s.record("ci").Items(), live.Record.Items())
	s.holds(live)
	s.holds(s.put(s.record("gpu"), live.Version))
}

func keepsUnknown(s subject) {
	s.Tamper(s.node, []byte(`{"version": 2, "node": "`+s.node+`", "labels": {"dedicated": "ci"}, "labelsOfTomorrow": {"a": ["<b>", 1.50, null]},
		"notShown": {"ofTomorrow": [{"key": "x"}], "labels": {"disktype": "ssd"}}}`))
	s.becomes(nil)
	entry, err := s.Get(s.node)
	require.NoError(s.t, err)
	assert.Equal(s.t, map[string]string{"dedicated": "ci", "disktype": "ssd"}, entry.Record.Items())

	changed := record.Merge(entry.Record, record.Observation{UID: "uid-1", Version: 81234, Items: map[string]record.Item{"dedicated": {Value: "gpu"}}})
	s.holds(s.put(changed, entry.Version))
	live, err := s.GetFromAPI(s.t.Context(), s.node)
	require.NoError(s.t, err)
	assert.JSONEq(s.t, `2`, s.field(live.Record, "version"), "nobody took it back to what he knows")
	assert.JSONEq(s.t, `{"dedicated": "gpu"}`, s.field(live.Record, "labels"))
	assert.JSONEq(s.t, `{"a": ["<b>", 1.50, null]}`, s.field(live.Record, "labelsOfTomorrow"))
	assert.JSONEq(s.t, `{"ofTomorrow": [{"key": "x"}], "labels": {"disktype": "ssd"}}`, s.field(live.Record, "notShown"))
}
