package record_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
)

// A record may vanish, or an older one may be put in its place. Then the Node is what is left to learn from.
func TestWhatARecordHasLostIsLearntFromTheNode(t *testing.T) {
	live := func() record.Observation { return from(given(given(shows("U2", 9), label, "a", 0), taint, "a", 0), 5) }
	knows := func(value string, version record.Version) record.Record {
		return record.New("n", record.Object{UID: "U0", Version: version}, map[string]string{label: value, taint: value})
	}
	tests := map[string]struct {
		r    record.Record
		want []record.Entry
	}{
		"there is no record":                         {record.Record{}, []record.Entry{{Key: label, Value: "a", Version: 5}, {Key: taint, Value: "a", Version: 5}}},
		"the record has older values":                {knows("z", 3), []record.Entry{{Key: label, Value: "a", Version: 5}, {Key: taint, Value: "a", Version: 5}}},
		"the record has older values that are equal": {knows("a", 3), []record.Entry{{Key: label, Value: "a", Version: 5}, {Key: taint, Value: "a", Version: 5}}},
		"the record has values of no version":        {record.New("n", record.Object{}, map[string]string{label: "z"}), []record.Entry{{Key: label, Value: "a", Version: 5}, {Key: taint, Value: "a", Version: 5}}},
		"the record has an older removal":            {record.Forget(knows("z", 3), []string{label, taint}), []record.Entry{{Key: label, Value: "a", Version: 5}, {Key: taint, Value: "a", Version: 5}}},
		"not if a newer value is recorded":           {knows("z", 6), []record.Entry{{Key: label, Value: "z", Version: 6, NotShown: true}, {Key: taint, Value: "z", Version: 6, NotShown: true}}},
		"not if a newer removal is recorded":         {record.Forget(knows("z", 6), []string{label, taint}), []record.Entry{{Key: label, Removed: true, Version: 6}, {Key: taint, Removed: true, Version: 6}}},
		"not if it is removed at that version":       {record.Forget(knows("z", 5), []string{label, taint}), []record.Entry{{Key: label, Removed: true, Version: 5}, {Key: taint, Removed: true, Version: 5}}},
		"not from before the record's first object":  {record.Record{Seen: []record.Object{{UID: "U1", Version: 8}}, Floor: 7}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			next := record.Merge(tt.r, live())
			assert.Equal(t, tt.want, next.Entries)
			assert.Equal(t, next, record.Merge(next, live()), "again")
			assert.Empty(t, record.Missing(next, live()))
			data, err := record.Encode(next)
			require.NoError(t, err)
			returned, err := record.Decode(data)
			require.NoError(t, err)
			assert.Equal(t, next.Seen, returned.Seen)
			assert.Equal(t, next.Entries, returned.Entries)
		})
	}
}

func TestWhatTheNodeBroughtOrAKubeletMayHaveDeclaredIsNotLearnt(t *testing.T) {
	current := brought(owned(shows("U2", 9), taint, "a", record.NoOwner), taint, "a")
	assert.Empty(t, record.Merge(record.Record{}, current).Entries)
	e, _ := record.Merge(record.Record{}, unproved(from(given(shows("U2", 9), label, "a", 0), 5), label)).Entry(label)
	assert.Equal(t, record.Version(9), e.Version, "its version is the kubelet's word")
}

// An entry of a lost record is of an object that nobody knows any more. The next object must not be taken for it: what that one lacked
// before nodekeep gave it the value would count as removed.
func TestWhatIsLearntFromALaterObjectIsNotDecidedOnIt(t *testing.T) {
	patched := from(given(shows("U2", 9), label, "a", 8), 5)
	prev := shows("U2", 7)
	first, late := record.Merge(record.Merge(record.Record{}, prev), patched), record.Merge(record.Merge(record.Record{}, patched), prev)
	assert.Equal(t, first, late, "whatever the order")
	assert.Equal(t, map[string]string{label: "a"}, late.Items())
	e, _ := late.Entry(label)
	assert.Empty(t, late.DecidedOn(e))

	// The state that decided it may be observed after all.
	decided := record.Merge(late, shows("U1", 5, label, "a"))
	e, _ = decided.Entry(label)
	assert.Equal(t, record.Object{UID: "U1", Version: 5}, decided.Seen[0])
	assert.EqualValues(t, "U1", decided.DecidedOn(e))
	removed := record.Merge(record.Merge(late, shows("U1", 6)), shows("U1", 5, label, "a"))
	e, _ = removed.Entry(label)
	assert.True(t, e.Removed, "a newer state of that object, observed before, lacks it")
}

func TestWhetherARecordLacksWhatAnotherOneHadObserved(t *testing.T) {
	prev := record.Record{Seen: []record.Object{{UID: "U1", Version: 5}, {UID: "U2", Version: 9}}}
	for name, c := range map[string]struct {
		r    record.Record
		lost bool
	}{
		"the same":                                {prev, false},
		"a newer one":                             {record.Record{Seen: []record.Object{{UID: "U2", Version: 12}}}, false},
		"an older state of the newest object":     {record.Record{Seen: []record.Object{{UID: "U1", Version: 5}, {UID: "U2", Version: 8}}}, true},
		"an object before":                        {record.Record{Seen: []record.Object{{UID: "U1", Version: 5}}}, true},
		"one that a client wrote":                 {record.Record{}, true},
		"one that was reset: no version is known": {record.Record{Seen: []record.Object{{UID: "U3", Version: 3}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.lost, c.r.Lost(prev))
			assert.False(t, c.r.Lost(record.Record{}), "nothing was observed before")
		})
	}
}
