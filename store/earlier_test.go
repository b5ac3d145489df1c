package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

func TestHistoriesGiveWayBeforeRecordsThenOneThatIsTooLongThenTheFirst(t *testing.T) {
	fn := func(machine string, bytes int) record.Record {
		items := map[string]string{}
		for i := range bytes / 100 {
			items[fmt.Sprintf("key-%05d", i)] = strings.Repeat("v", 63)
		}
		r := record.New("n", record.Object{UID: "u", Version: 5}, items)
		r.Machine = record.Machine{SystemUUID: machine}
		return r
	}
	last := history.Max // the number of the last change of manyChanges
	written := func(records ...record.Record) (machines []string, listed int) {
		t.Helper()
		text, err := encodeEarlier(records)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(text), maxEarlier)
		returned, err := decodeEarlier(text, "n")
		require.NoError(t, err)
		for _, r := range returned {
			machines = append(machines, r.Machine.SystemUUID)
			for _, item := range []*record.Record{&r, r.Quarantined} {
				if item == nil {
					continue
				}
				changes := history.Changes(*item)
				if listed += len(changes); item.Machine.SystemUUID == "b" {
					require.NotEmpty(t, changes)
					assert.Equal(t, last, changes[len(changes)-1].Number)
				}
			}
		}
		return machines, listed
	}
	long, small := fn("a", 240_500), fn("b", 100)
	small.History = manyChanges()
	machines, listed := written(small, small)
	assert.Equal(t, []string{"b", "b"}, machines)
	assert.Equal(t, 2*last, listed)
	machines, listed = written(long, small, small, small, small, small)
	assert.Equal(t, []string{"a", "b", "b", "b", "b", "b"}, machines)
	assert.Equal(t, 5, listed, "of each the number of the last change")
	waits := small
	waits.Quarantined = &small
	machines, listed = written(long, waits, waits, waits)
	assert.Equal(t, []string{"a", "b", "b", "b"}, machines)
	assert.Equal(t, 6, listed, "also of what waits for an operator")
	unread := fn("c", 100)
	unread.History = json.RawMessage(`"` + strings.Repeat("x", maxEarlier) + `"`)
	machines, listed = written(unread)
	assert.Equal(t, []string{"c"}, machines)
	assert.Zero(t, listed)
	machines, _ = written(small, long, fn("c", 100_000))
	assert.Equal(t, []string{"c"}, machines)
	machines, _ = written(small, fn("huge", 1_000_000), small)
	assert.Equal(t, []string{"b", "b"}, machines, "one that no record can have is left out")
}

func TestWhatCannotBeReadOfEarlierMachinesMakesTheRecordUnreadable(t *testing.T) {
	for text, wrong := range map[string]string{
		"{": "unexpected end",
		`[{"record":{"version":1,"node":"other"}}]`:                                                    "another node",
		`[{"record":{"version":1,"node":"n"},"waits":{"version":1,"node":"other"}}]`:                   "another node",
		"[" + strings.TrimSuffix(strings.Repeat(`{"record":{"version":1,"node":"n"}},`, 9), ",") + "]": "more than the 8",
	} {
		_, err := document{record: `{"version":1,"node":"n"}`, earlier: text}.decode()
		require.ErrorContains(t, err, "earlier.json: ")
		require.ErrorContains(t, err, wrong)
	}
}
