package store_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
	"nodekeep.dev/nodekeep/store"
)

// longest returns a record with so many labels of the longest kind.
func longest(labels int) record.Record {
	items := map[string]string{}
	for i := range labels {
		items[fmt.Sprintf("%s/%s%07d", strings.Repeat("d", 253), strings.Repeat("n", 56), i)] = strings.Repeat("v", 63)
	}
	return record.New("worker-1", record.Object{UID: "u", Version: 7}, items)
}

func TestAHistoryGivesWayBeforeARecordIsTooLarge(t *testing.T) {
	r := longest(1000)
	_, err := store.Encode(r)
	require.NoError(t, err, "a thousand labels of the longest kind fit")
	for _, value := range []string{"a", "b", "c"} {
		next := r
		next.Entries = slices.Clone(r.Entries)
		for i := range 20 {
			next.Entries[i].Value = value
		}
		r = history.Append(r, next, func(string, history.Values) history.Cause {
			return history.Cause{Actor: "x", Time: metav1.Unix(1_700_000_000, 0)}
		})
	}
	require.NotEqual(t, -1, slices.IndexFunc(history.Changes(r), func(c history.Change) bool { return c.Number == 1 }), "all three are there")
	bare := r
	bare.History, bare.Machine = nil, record.Machine{MachineID: "x"}
	small, err := record.Encode(bare)
	require.NoError(t, err)
	replacement := func(room int) record.Record { // whose history has so many bytes at most
		large := r
		large.Machine = record.Machine{MachineID: strings.Repeat("x", 1+record.MaxBytes-len(small)-room)}
		return large
	}
	for room, want := range map[int][]int{0: {}, 200: {3}, 500: {3}, 12_000: {3}, 20_000: {2, 3}, 40_000: {1, 2, 3}} {
		data, err := store.Encode(replacement(room))
		require.NoError(t, err, room)
		read, err := store.Decode(data, "worker-1")
		require.NoError(t, err, "what is written can be read")
		assert.True(t, maps.Equal(r.Items(), read.Items()))
		left := history.Changes(read)
		numbers := []int{}
		for _, change := range left {
			numbers = append(numbers, change.Number)
		}
		assert.Equal(t, want, numbers, "room for %d", room)
	}
	_, err = store.Encode(replacement(-1))
	require.ErrorIs(t, err, record.ErrTooLarge)
}

func TestARecordIsOfItsNodeOnly(t *testing.T) {
	for name, tt := range map[string]struct{ data, want string }{
		"no node":            {`{"version": 1}`, `it is the record of node ""`},
		"another node":       {`{"version": 1, "node": "worker-2"}`, `it is the record of node "worker-2"`},
		"a node in capitals": {`{"version": 1, "node": "Worker-1"}`, `it is the record of node "Worker-1"`},
		"nothing":            {``, "it is empty"},
		"a later version":    {`{"version": 3, "node": "worker-1"}`, "its version is 3; this nodekeep reads 1 to 2"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := store.Decode([]byte(tt.data), "worker-1")
			require.ErrorIs(t, err, store.ErrUnreadable)
			require.ErrorContains(t, err, `read record of node "worker-1": `)
			require.ErrorContains(t, err, tt.want)
			assert.Zero(t, r, "nothing may be taken from it")
		})
	}
	r, err := store.Decode([]byte(`{"version": 1, "node": "worker-1", "labels": {"a": "1"}}`), "worker-1")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "1"}, r.Items())
}

func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("../record/testdata/*.json")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(data, "worker-2")
	}
	for _, data := range []string{
		``, `null`, `{"version":1}`, "{\"version\":1,\"node\":\"n\",\"\xff\":\"\xff\"}",
		`{"version":1,"node":"n","history":[{"number":1,"time":"2026-05-01T12:00:00.5+02:00","labels":{"a":{"to":"1"},"b":{"from":""}}},{"number":1},null,{"number":9,"time":"2026-05-01T12:00:00Z","omitted":3}]}`,
		`{"version":1,"node":"n","history":[{"number":2,"time":"2026-05-01T12:00:00Z","actor":"<&>","labels":{"a:NoExecute":{"to":"1"}},"taints":[{"key":"a","effect":"NoExecute","from":"1"},{"key":"b","effect":"Never"}]}]}`,
	} {
		f.Add([]byte(data), "n")
	}
	f.Fuzz(func(t *testing.T, data []byte, node string) {
		r, err := store.Decode(data, node)
		if err != nil {
			require.ErrorIs(t, err, store.ErrUnreadable)
			assert.Zero(t, r)
			return
		}
		assert.Equal(t, node, r.Node)
		written, err := store.Encode(r)
		if err != nil {
			assert.ErrorIs(t, err, record.ErrTooLarge)
			return
		}
		require.True(t, json.Valid(written))
		returned, err := store.Decode(written, node)
		require.NoError(t, err, "what is written can be read")
		assert.Equal(t, r.Items(), returned.Items())
		if len(written) < record.MaxBytes/2 { // else it may have given way
			assert.Equal(t, history.Changes(r), history.Changes(returned))
		}
		reread, err := store.Encode(returned)
		require.NoError(t, err)
		assert.Equal(t, string(written), string(reread))
		for ok := true; ok; r, ok = history.Shortened(r) {
			_, err := history.RollBack(r, 0)
			_ = err // panics at nothing
		}
	})
}
