package store_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/store"
)

// The informer's store has an event before its handlers run. On a busy machine, an answer of the API server comes between the two.
func TestWhatThisProcessWroteIsReadAtOnceWhileTheHandlersOfTheWatchLag(t *testing.T) {
	const name = "node.worker-1"
	// The label's value in each version of the record is the version.
	pos := func(version string) *corev1.ConfigMap {
		cm := configMapOf(name, "worker-1")
		cm.ResourceVersion = version
		cm.Data[store.DataKey] = `{"version": 1, "node": "worker-1", "labels": {"dedicated": "` + version + `"}}`
		return cm
	}
	for _, c := range []struct {
		name string
		runs func(s store.LaggingForTest)
		want string // empty: no record
	}{
		{"the watch brings the last write before its answer", func(s store.LaggingForTest) {
			s.Wrote(pos("10"))
			s.Brings(pos("11"))
			s.Wrote(pos("11"))
		}, "11"},
		{"the watch brings the first write after the answer to the last", func(s store.LaggingForTest) {
			s.Wrote(pos("10"))
			s.Wrote(pos("11"))
			s.Brings(pos("10"))
		}, "11"},
		{"the answers come in another order than the writes", func(s store.LaggingForTest) {
			s.Wrote(pos("11"))
			s.Wrote(pos("10"))
		}, "11"},
		{"the watch brings a write of another client", func(s store.LaggingForTest) {
			s.Wrote(pos("10"))
			s.Brings(pos("12"))
		}, "12"},
		{"the watch has not brought its removal", func(s store.LaggingForTest) {
			s.Wrote(pos("10"))
			s.Brings(pos("10"))
			s.Removed(name, "10")
		}, ""},
		{"the watch brings the record that it made again before the answer", func(s store.LaggingForTest) {
			s.Wrote(pos("10"))
			s.Brings(pos("10"))
			s.Removed(name, "10")
			s.Brings(pos("12"))
			s.Wrote(pos("12"))
		}, "12"},
		{"the record that it made again is not brought yet", func(s store.LaggingForTest) {
			s.Brings(pos("10"))
			s.Removed(name, "10")
			s.Wrote(pos("12"))
		}, "12"},
		{"its own write does not follow a newer one that was read and removed", func(s store.LaggingForTest) {
			s.Wrote(pos("10"))
			s.Brings(pos("12"))
			_, err := s.Get("worker-1")
			require.NoError(t, err)
			s.BringsRemoval(pos("12"))
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := store.NewLaggingForTest(t)
			c.runs(s)
			entry, err := s.Get("worker-1")
			if c.want == "" {
				require.ErrorIs(t, err, store.ErrNotFound)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, entry.Version)
			assert.Equal(t, c.want, entry.Record.Items()["dedicated"])
		})
	}
}
