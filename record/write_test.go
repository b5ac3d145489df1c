package record_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/record"
)

func TestWrite(t *testing.T) {
	final := func(o record.Observation) record.Observation {
		o.Final = true
		return o
	}
	ended := func(o record.Observation) record.Observation {
		o.DeletedAt = time.Unix(1, 0)
		return o
	}
	u1 := shows("U1", 5, label, "a")
	tests := map[string]struct {
		earlier    []record.Observation
		o          record.Observation
		incomplete bool
		want       bool
	}{
		"a first record":                                     {nil, u1, false, true},
		"a first record that remembers nothing":              {nil, shows("U1", 5), false, false},
		"the same, at a deletion":                            {nil, final(shows("U1", 5)), false, true},
		"a value changes":                                    {[]record.Observation{u1}, shows("U1", 6, label, "b"), false, true},
		"a key is removed":                                   {[]record.Observation{u1}, shows("U1", 6), false, true},
		"a heartbeat":                                        {[]record.Observation{u1}, shows("U1", 6, label, "a"), false, false},
		"the same observation again, final":                  {[]record.Observation{u1}, final(u1), false, false},
		"a heartbeat that is about to be deleted":            {[]record.Observation{u1}, final(shows("U1", 6, label, "a")), false, true},
		"a client sets the same value on a new object":       {[]record.Observation{u1}, shows("U2", 9, label, "a"), true, true},
		"a new object that has all":                          {[]record.Observation{u1}, given(shows("U2", 9), label, "a", 0), false, true},
		"a new object that lacks something":                  {[]record.Observation{u1}, shows("U2", 9), true, false},
		"a new object after a deletion that lacks something": {[]record.Observation{ended(u1)}, shows("U2", 9), true, false},
		"the newest object is deleted":                       {[]record.Observation{final(u1)}, ended(u1), false, true},
		"an older object is deleted, and that was recorded":  {[]record.Observation{ended(u1), given(shows("U2", 9), label, "a", 0)}, ended(u1), false, false},
		"a taint is changed after nodekeep set it":           {[]record.Observation{shows("U1", 5, taint, "a")}, listed(shows("U2", 9, taint, "b"), taint, "a", 0), true, true},
		"a taint is changed to the recorded value after":     {[]record.Observation{shows("U1", 5, taint, "a"), shows("U2", 8, taint, "a")}, listed(shows("U2", 10, taint, "a"), taint, "b", 9), false, true},
		"a label is changed to the recorded value after":     {[]record.Observation{shows("U1", 5, label, "a"), shows("U2", 8, label, "a")}, listed(shows("U2", 10, label, "a"), label, "b", 9), false, false},
		"a label is changed again to the recorded value after a rule replaced it": {
			[]record.Observation{shows("U1", 5, label, "a"), ruled(shows("U1", 6), 5)}, ruled(shows("U1", 7, label, "a"), 5), false, true,
		},
		"a label is as a rule left it": {
			[]record.Observation{shows("U1", 5, label, "a"), ruled(shows("U1", 6), 5)}, ruled(shows("U1", 7), 5), false, false,
		},
		"an older state of the object that the record goes past": {[]record.Observation{u1}, shows("U1", 4, label, "b"), false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			prev := merged(tt.earlier...)
			assert.Equal(t, tt.want, record.WorthWriting(prev, record.Merge(prev, tt.o), tt.o, !tt.incomplete))
		})
	}
	old := merged(u1)
	next := old
	next.Machine.SystemUUID = "other"
	assert.True(t, record.WorthWriting(old, next, u1, true), "another machine has the name")
}

func TestMissing(t *testing.T) {
	r := merged(shows("U1", 5, label, "a", taint, "a", "gone", "x"), shows("U1", 6, label, "a", taint, "a"))
	tests := map[string]struct {
		o    record.Observation
		want map[string]string
	}{
		"all, of a new object":                       {shows("U2", 9), map[string]string{label: "a", taint: "a"}},
		"not what it has":                            {shows("U2", 9, taint, "a"), map[string]string{label: "a"}},
		"not where it has another value":             {shows("U2", 9, taint, "b"), map[string]string{label: "a"}},
		"not where the kubelet has an own value":     {owned(shows("U2", 9, taint, "a"), label, "k", record.OtherOwner), nil},
		"not where a rule has derived a taint":       {owned(shows("U2", 9, label, "a"), taint, "r", record.Rule), nil},
		"not what a client removed since it was set": {listed(shows("U2", 9, taint, "a"), label, "a", 0), nil},
		"but if the kubelet may have said so":        {unproved(listed(shows("U2", 9, taint, "a"), label, "a", 0), label), map[string]string{label: "a"}},
		"nothing of the object it was recorded on":   {shows("U1", 7), nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, record.Missing(r, tt.o))
		})
	}
}

func TestStale(t *testing.T) {
	r := merged(shows("U1", 5, label, "a", taint, "a", "gone", "x"), shows("U1", 6, label, "a", taint, "a"))
	tests := map[string]struct {
		o       record.Observation
		correct map[string]string
		remove  []string
	}{
		"nothing that is right":                        {given(given(shows("U2", 9), label, "a", 0), taint, "a", 0), nil, nil},
		"what was restored from an older record":       {given(given(shows("U2", 9), label, "z", 0), taint, "z", 0), map[string]string{label: "a", taint: "a"}, nil},
		"what a client removed before":                 {given(shows("U2", 9), "gone", "x", 0), nil, []string{"gone"}},
		"not what the record does not know":            {given(given(shows("U2", 9), "b", "x", 0), "a", "x", 0), nil, nil},
		"what is from an entry that is older":          {from(given(given(shows("U2", 9), "gone", "x", 0), taint, "z", 0), 4), map[string]string{taint: "a"}, []string{"gone"}},
		"not what is from an entry that is newer":      {from(given(given(shows("U2", 9), "gone", "x", 0), taint, "z", 0), 7), nil, nil},
		"what is removed at the version of the entry":  {from(given(shows("U2", 9), "gone", "x", 0), 6), nil, []string{"gone"}},
		"not what differs at the version of the entry": {from(given(shows("U2", 9), taint, "z", 0), 6), nil, nil},
		"what is from an entry of another cluster":     {from(given(shows("U2", 9), taint, "z", 0), 9), map[string]string{taint: "a"}, nil},
		"not what a client changed":                    {listed(listed(ownedBy(shows("U2", 9, taint, "y", label, "z"), argo), label, "z", 0), taint, "z", 0), nil, nil},
		"not what the Node brought":                    {brought(owned(shows("U2", 9, taint, "z"), label, "z", record.NoOwner), taint, "z"), nil, nil},
		"not what the policy does not select":          {listed(owned(shows("U2", 9), "gone", "x", record.OtherOwner), "gone", "x", 0), nil, nil},
		"not what only the kubelet may have declared":  {unproved(given(shows("U2", 9), "gone", "x", 0), "gone"), nil, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			correct, remove := record.Stale(r, tt.o)
			assert.Equal(t, tt.correct, correct)
			assert.Equal(t, tt.remove, remove)
		})
	}
}
