package storetest

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/store"
)

// unreadable is what somebody may leave behind in the place of the record of a Node.
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
		`{"version": ` + fmt.Sprint(store.Version+2) + `, "node": "` + node + `"}`,
		`{"version": 1, "node": "` + node + `", "labels": ["dedicated"]}`,
		`{"version": 1, "node": "` + node + `", "withheld": "everything"}`,
		`{"version": 1, "node": "` + node + `", "labels": {"dedicated": "ci"}, "taints": {"maintenance": "disk"}}`,
		`{"version": 1, "node": "` + node + `", "labels": {"dedicated": "ci"}, "ruleTaints": ["dedicated=ci:NoSchedule"]}`,
		`{"version": 1, "node": "` + node + `", "note": "` + strings.Repeat("x", store.MaxRecordBytes) + `"}`,
	}
}

func leavesUnreadable(s subject) {
	for i, data := range unreadable(s.node) {
		s.Tamper(s.node, []byte(data))
		s.unusable()
		before, _ := s.GetLive(s.t.Context(), s.node)
		s.conflicts(s.record("over it"), "")
		after, err := s.GetLive(s.t.Context(), s.node)
		require.ErrorIs(s.t, err, store.ErrUnreadable)
		assert.Equal(s.t, before.Version, after.Version, "number %d is as it was", i)
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
	live, err := s.GetLive(s.t.Context(), s.node)
	require.NoError(s.t, err)
	assert.Equal(s.t, s.record("ci").Items, live.Record.Items)
	s.holds(live)
	s.holds(s.put(s.record("gpu"), live.Version))
}

func keepsUnknown(s subject) {
	s.Tamper(s.node, []byte(`{"version": 2, "node": "`+s.node+`", "labels": {"dedicated": "ci"}, "labelsOfTomorrow": {"a": ["<b>", 1.50, null]},
		"withheld": {"ofTomorrow": [{"key": "x"}], "labels": {"disktype": "ssd"}}}`))
	s.becomes(nil)
	entry, err := s.Get(s.node)
	require.NoError(s.t, err)
	assert.Equal(s.t, map[string]string{"dedicated": "ci"}, entry.Record.Items)
	assert.Equal(s.t, map[string]string{"disktype": "ssd"}, entry.Record.Withheld.Items)

	changed := entry.Record
	changed.Items = map[string]string{"dedicated": "gpu"}
	changed.Withheld.Items = nil
	entry = s.put(changed, entry.Version)
	s.holds(entry)
	live, err := s.GetLive(s.t.Context(), s.node)
	require.NoError(s.t, err)
	assert.JSONEq(s.t, `2`, s.field(live.Record, "version"), "nobody took it back to what he knows")
	assert.JSONEq(s.t, `{"dedicated": "gpu"}`, s.field(live.Record, "labels"))
	assert.JSONEq(s.t, `{"a": ["<b>", 1.50, null]}`, s.field(live.Record, "labelsOfTomorrow"))
	assert.JSONEq(s.t, `{"ofTomorrow": [{"key": "x"}]}`, s.field(live.Record, "withheld"))
}
