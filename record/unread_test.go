package record_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/record"
)

// A client wrote a whole list of taints. It had read the Node when that had these taints.
func TestWhatAClientHadNotReadIsNotRemovedByItsList(t *testing.T) {
	prev := func(o record.Observation, keys ...string) record.Observation {
		o.Read = append([]string{}, keys...)
		return o
	}
	edited := shows("U2", 9, label, "a", taint, "a")
	restored := given(shows("U2", 9, label, "a", taint, "a"), taint, "a", 8)
	lacks := shows("U2", 12)
	lacksGiven := listed(shows("U2", 12), taint, "a", 8)
	old := shows("U1", 5, taint, "a")
	for name, tt := range map[string]struct {
		earlier []record.Observation
		o       record.Observation
		missing bool
		want    []record.Entry
	}{
		"a taint that a client decided":        {[]record.Observation{edited}, prev(lacks), true, []record.Entry{{Key: label, Removed: true, Version: 12}, {Key: taint, Value: "a", Version: 9, NotShown: true}}},
		"a taint that nodekeep gave":           {[]record.Observation{old, restored}, prev(lacksGiven), true, []record.Entry{{Key: label, Removed: true, Version: 12}, {Key: taint, Value: "a", Version: 5, NotShown: true}}},
		"a taint that was removed before":      {[]record.Observation{edited, shows("U2", 10)}, prev(lacks), false, []record.Entry{{Key: label, Removed: true, Version: 10}, {Key: taint, Removed: true, Version: 10}}},
		"what a lost record knew":              {nil, prev(lacksGiven), false, nil},
		"but what it had read":                 {[]record.Observation{edited}, prev(lacks, taint), false, []record.Entry{{Key: label, Removed: true, Version: 12}, {Key: taint, Removed: true, Version: 12}}},
		"and what nodekeep gave before it":     {[]record.Observation{old, restored}, prev(lacksGiven, taint), false, []record.Entry{{Key: label, Removed: true, Version: 12}, {Key: taint, Removed: true, Version: 12}}},
		"a newer value, observed before it":    {[]record.Observation{old, shows("U2", 13, taint, "b")}, prev(lacksGiven), true, []record.Entry{{Key: taint, Value: "b", Version: 13}}},
		"observed after a newer such list":     {[]record.Observation{old, listed(shows("U2", 9, taint, "b"), taint, "a", 8), prev(listed(shows("U2", 13), taint, "a", 8))}, prev(lacksGiven), true, []record.Entry{{Key: taint, Value: "b", Version: 9, NotShown: true}}},
		"a list that lacks nothing new at all": {[]record.Observation{edited}, prev(shows("U2", 12, label, "a", taint, "a")), false, []record.Entry{{Key: label, Value: "a", Version: 12}, {Key: taint, Value: "a", Version: 12}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := record.Merge(merged(tt.earlier...), tt.o)
			assert.Equal(t, tt.want, r.Entries)
			assert.Equal(t, tt.missing, len(record.Missing(r, tt.o)) > 0)
			assert.Equal(t, r, record.Merge(r, tt.o), "again")
		})
	}
}
