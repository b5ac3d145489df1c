package record_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
)

const (
	label = "rack"
	taint = "tenant:NoSchedule"
)

// shows returns an observation of an object: its version, and pairs of a key and a value that a client set.
func shows(uid types.UID, version record.Version, pairs ...string) record.Observation {
	o := record.Observation{UID: uid, Version: version, Items: map[string]record.Item{}}
	for i := 0; i < len(pairs); i += 2 {
		item := record.Item{Value: pairs[i+1], Owner: record.Client}
		if record.IsTaint(pairs[i]) {
			item.Owner = record.NoOwner
		}
		o.Items[pairs[i]] = item
	}
	return o
}

// given returns the observation with a value that nodekeep set, as the stamp lists it. The Node shows it unless a client changed it.
func given(o record.Observation, key, value string, version record.Version) record.Observation {
	if _, present := o.Items[key]; !present {
		o.Items[key] = record.Item{Value: value}
	}
	return listed(o, key, value, version)
}

// listed returns the observation with a value that the stamp lists.
func listed(o record.Observation, key, value string, version record.Version) record.Observation {
	if o.Stamp.Given == nil {
		o.Stamp.Given = map[string]record.Given{}
	}
	o.Stamp.Given[key] = record.Given{Value: value, Version: version}
	return o
}

// from returns the observation with what nodekeep gave from an entry of that version.
func from(o record.Observation, version record.Version) record.Observation {
	for key, given := range o.Stamp.Given {
		given.From = version
		o.Stamp.Given[key] = given
	}
	return o
}

// brought returns the observation with a key that the stamp lists as the Node's own.
func brought(o record.Observation, key, value string) record.Observation {
	o.Stamp.Brought = map[string]string{key: value}
	return o
}

// owned returns the observation with an item of that owner.
func owned(o record.Observation, key, value string, by record.Owner) record.Observation {
	o.Items[key] = record.Item{Value: value, Owner: by}
	return o
}

// ruled returns the observation with a label as a rule has set it, to "r". The Node shows it unless a client changed it.
func ruled(o record.Observation, version record.Version) record.Observation {
	if _, present := o.Items[label]; !present {
		o = owned(o, label, "r", record.OtherOwner)
	}
	return ruledSince(o, label, version)
}

// ruledSince returns the observation with a key that rules have left as they want it since a version, unless a client changed it.
func ruledSince(o record.Observation, key string, version record.Version) record.Observation {
	o.RuleSince = map[string]record.Version{key: version}
	return o
}

func unproved(o record.Observation, key string) record.Observation {
	o.Unconfirmed = map[string]bool{key: true}
	return o
}

func merged(observations ...record.Observation) (r record.Record) {
	for _, o := range observations {
		r = record.Merge(r, o)
	}
	return r
}

func TestMerge(t *testing.T) {
	type items = map[string]string
	blank := items{}
	u1 := shows("U1", 5, label, "a", taint, "a")
	tests := map[string]struct {
		observations []record.Observation
		want         items
	}{
		"what a client sets is recorded": {
			[]record.Observation{u1}, items{label: "a", taint: "a"}},
		"what a client sets to another value is recorded": {
			[]record.Observation{u1, shows("U1", 6, label, "b", taint, "b")}, items{label: "b", taint: "b"}},
		"what a client removes from the object on which it was recorded is removed": {
			[]record.Observation{u1, shows("U1", 6)}, blank},
		"what is lost with an older object stays recorded": {
			[]record.Observation{u1, shows("U2", 9)}, items{label: "a", taint: "a"}},
		"an older state of the object changes nothing": {
			[]record.Observation{u1, shows("U1", 4, label, "z", taint, "z")}, items{label: "a", taint: "a"}},
		"the end of an older object changes nothing that a later object decided": {
			[]record.Observation{shows("U2", 9, label, "b"), shows("U1", 5, label, "a")}, items{label: "b"}},
		"the end of an older object counts where no later one decided": {
			[]record.Observation{shows("U2", 9, label, "b"), shows("U1", 5, taint, "a")}, items{label: "b", taint: "a"}},

		"what an older state of the object showed and a newer one lacks was removed": {
			[]record.Observation{shows("U0", 3, label, "z", taint, "z"), shows("U1", 6), shows("U1", 5, label, "a", taint, "a")}, blank},
		"a taint that an older state changed was set back to the listed value, if a newer one says nothing": {
			[]record.Observation{given(shows("U1", 6), taint, "a", 0), listed(shows("U1", 5, taint, "b"), taint, "a", 0)}, items{taint: "a"}},
		"a taint that an older state lacks was set back to the listed value, if a newer one says nothing": {
			[]record.Observation{given(shows("U1", 6), taint, "a", 0), listed(shows("U1", 5), taint, "a", 0)}, items{taint: "a"}},
		"a label that an older state changed is hidden by the kubelet's, if a newer one says nothing and the stamp lists it": {
			[]record.Observation{brought(owned(shows("U1", 6), label, "k", record.OtherOwner), label, "k"), brought(shows("U1", 5, label, "a"), label, "k")}, items{label: "a"}},

		"what nodekeep set and a client removed is removed": {
			[]record.Observation{u1, listed(listed(shows("U2", 9), label, "a", 0), taint, "a", 0)}, blank},
		"what nodekeep set says nothing, so that an older object's removal still counts": {
			[]record.Observation{u1, given(given(shows("U2", 9), label, "a", 0), taint, "a", 0), shows("U1", 7)}, blank},
		"what nodekeep set and a client applies as it is counts": {
			[]record.Observation{u1, listed(ownedBy(shows("U2", 9, label, "a"), argo), label, "a", 0), shows("U1", 7)}, items{label: "a"}},
		"a label that nobody owns and the stamp does not list was set by another admission policy": {
			[]record.Observation{u1, brought(owned(shows("U2", 9), label, "b", record.NoOwner), label, "b")}, items{label: "b", taint: "a"}},
		"a label that the Node brought and a client removed is removed": {
			[]record.Observation{u1, brought(shows("U2", 9), label, "k")}, items{taint: "a"}},
		"a taint that the Node brought says nothing while it has the same value": {
			[]record.Observation{u1, brought(shows("U2", 9, taint, "k"), taint, "k")}, items{label: "a", taint: "a"}},
		"a taint that a client sets back to the listed value is recorded": {
			[]record.Observation{
				shows("U1", 5, taint, "c"), listed(shows("U2", 9, taint, "b"), taint, "a", 0), given(shows("U2", 10), taint, "a", 0),
			}, items{taint: "a"}},
		"what a client removed and a capture that was behind set again is removed": {
			[]record.Observation{u1, given(given(shows("U1", 8), label, "z", 7), taint, "z", 7)}, blank},
		"a label that a client sets back to the listed value is recorded, also if no field manager owns it any more": {
			[]record.Observation{listed(shows("U1", 9, label, "a"), label, "z", 7), given(shows("U1", 10), label, "z", 7)}, items{label: "z"}},
		"a taint that an older state shows as it is recorded was not removed, if the policy does not select it in the newer one": {
			[]record.Observation{shows("U1", 5, taint, "a"), owned(shows("U1", 7), taint, "a", record.OtherOwner), shows("U1", 6, taint, "a")}, items{taint: "a"}},
		"a label that an older state of the object changed counts if the kubelet's own value hides it in the newer one": {
			[]record.Observation{shows("U1", 5, label, "a"), owned(shows("U1", 7), label, "k", record.OtherOwner), shows("U1", 6, label, "b")}, items{label: "b"}},

		"a kubelet's own label is not recorded": {
			[]record.Observation{owned(shows("U1", 5), label, "k", record.OtherOwner)}, blank},
		"a kubelet's own label leaves the record as it is": {
			[]record.Observation{u1, owned(shows("U1", 6, taint, "a"), label, "k", record.OtherOwner)}, items{label: "a", taint: "a"}},
		"a label that is removed while the policy does not select it is removed": {
			[]record.Observation{u1, owned(shows("U1", 6, taint, "a"), label, "a", record.OtherOwner), shows("U1", 7, taint, "a")}, items{taint: "a"}},
		"a label that a rule set and a client set to another value and back is the client's": {
			[]record.Observation{ruled(shows("U1", 5), 0), ruled(shows("U1", 6, label, "b"), 0), ruled(shows("U1", 7), 0)}, items{label: "r"}},
		"the same, repeated": {
			[]record.Observation{
				ruled(shows("U1", 6, label, "b"), 0), ruled(shows("U1", 7), 0), ruled(shows("U1", 6, label, "b"), 0), ruled(shows("U1", 8), 0),
			}, items{label: "r"}},
		"the same, while another component sets it, too": {
			[]record.Observation{ruled(shows("U1", 6, label, "b"), 0), owned(shows("U1", 7), label, "r", record.OtherOwner)}, items{label: "b"}},
		"a client's label that a rule replaced stays recorded": {
			[]record.Observation{shows("U1", 5, label, "b"), ruled(shows("U1", 6), 5), ruled(shows("U1", 7), 5)}, items{label: "b"}},
		"a client's label that a rule replaced on a newer object stays recorded": {
			[]record.Observation{shows("U1", 5, label, "b"), ruled(shows("U2", 9), 0)}, items{label: "b"}},
		"a client's label that a rule replaced again stays recorded": {
			[]record.Observation{shows("U1", 5, label, "b"), ruled(shows("U1", 7, label, "c"), 5), ruled(shows("U1", 8), 7)}, items{label: "c"}},
		"a label that a rule set in place of a client's, and that a client removed, is removed": {
			[]record.Observation{shows("U1", 5, label, "b"), ruledSince(shows("U2", 9), label, 0)}, blank},
		"since when a rule set a label is not believed where it is later than the observation": {
			[]record.Observation{shows("U1", 5, label, "b"), ruledSince(shows("U2", 9), label, 9)}, items{label: "b"}},
		"what a rule removed, and a client added and removed again, is removed": {
			[]record.Observation{ruledSince(shows("U1", 6, taint, "b"), taint, 5), ruledSince(owned(shows("U1", 7), taint, "", record.Absent), taint, 5)}, blank},
		"what a client added and a rule removed stays recorded": {
			[]record.Observation{ruledSince(shows("U1", 6, taint, "b"), taint, 5), ruledSince(owned(shows("U1", 7), taint, "", record.Absent), taint, 6)}, items{taint: "b"}},
		"a taint that nodekeep derives from labels is not recorded": {
			[]record.Observation{owned(shows("U1", 5), taint, "r", record.Rule)}, blank},
		"where nodekeep derives a taint, a client's taint was removed": {
			[]record.Observation{u1, owned(shows("U1", 6, label, "a"), taint, "r", record.Rule)}, items{label: "a"}},

		"what no Node can show is never recorded, whatever a stamp lists": {
			[]record.Observation{listed(listed(shows("U1", 5, label, "a"), "not a key", "x", 0), "colon:Sometimes", "x", 0)}, items{label: "a"}},
		"a stamp that the kubelet may have written proves no removal": {
			[]record.Observation{u1, unproved(listed(shows("U2", 9, label, "a"), taint, "a", 0), taint)}, items{label: "a", taint: "a"}},
		"a taint that no record ever had and that a kubelet may have claimed for nodekeep is a client's": {
			[]record.Observation{shows("U1", 5, label, "a"), unproved(given(shows("U2", 9, label, "a"), taint, "x", 0), taint)}, items{label: "a", taint: "x"}},
		"a taint that a client set on this object stays, also where the kubelet claims that nodekeep set it later": {
			[]record.Observation{shows("U1", 5, taint, "x"), unproved(given(shows("U1", 9), taint, "x", 7), taint)}, items{taint: "x"}},
		"and it stays a client's when the kubelet repeats that": {
			[]record.Observation{
				shows("U1", 5, taint, "x"), unproved(given(shows("U1", 9), taint, "x", 7), taint), unproved(given(shows("U1", 12), taint, "x", 10), taint),
			}, items{taint: "x"}},
		"a taint that a client removed from this object and set again counts, also where the kubelet claims that nodekeep set it": {
			[]record.Observation{shows("U1", 5, taint, "x"), shows("U1", 6), unproved(given(shows("U1", 9), taint, "x", 7), taint)}, items{taint: "x"}},
		"a taint that a client changed on this object counts, also where the kubelet claims that nodekeep set it": {
			[]record.Observation{shows("U1", 5, taint, "x"), unproved(given(shows("U1", 9), taint, "y", 7), taint)}, items{taint: "y"}},
		"such a stamp in an older state of the object says nothing either": {
			[]record.Observation{
				shows("U1", 5, taint, "x"), owned(shows("U1", 12), taint, "x", record.OtherOwner), unproved(given(shows("U1", 9), taint, "x", 7), taint),
			}, items{taint: "x"}},
		"with such a stamp, a removal counts if the key was observed on the object": {
			[]record.Observation{
				u1, unproved(given(shows("U2", 9, label, "a"), taint, "a", 0), taint), unproved(listed(shows("U2", 10, label, "a"), taint, "a", 0), taint),
			}, items{label: "a"}},
		"a stamp that claims a PATCH of the future lists nothing": {
			[]record.Observation{u1, given(shows("U1", 8, label, "a"), taint, "z", 8)}, items{label: "a", taint: "z"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := merged(tt.observations...)
			assert.Equal(t, tt.want, r.Items())
			for _, o := range tt.observations {
				assert.Equal(t, tt.want, record.Merge(r, o).Items(), "an observation repeated changes nothing")
			}
		})
	}
}

func TestWhatARuleRemovesStaysInTheRecordAsItWas(t *testing.T) {
	for name, key := range map[string]string{"a label": label, "a taint": taint} {
		for value, shown := range map[string]string{"with a value": "v", "without a value": ""} {
			t.Run(name+" "+value, func(t *testing.T) {
				prev := record.Merge(record.Record{}, shows("a", 10, key, shown))
				absent := owned(listed(shows("a", 20), key, shown, 15), key, "", record.Absent)
				for _, o := range []record.Observation{absent, owned(shows("b", 20), key, "", record.Absent)} {
					next := record.Merge(prev, o)
					assert.Equal(t, map[string]string{key: shown}, next.Items(), "no client has removed it")
					e, _ := next.Entry(key)
					assert.True(t, e.NotShown, "the Node does not show it")
					assert.Empty(t, record.Missing(next, o), "and does not lack it")
				}
				removed := record.Merge(prev, owned(shows("a", 20), key, "", record.Absent))
				assert.Empty(t, record.Merge(removed, shows("a", 30)).Items(), "without the rule, what is missing was removed")
				empty := record.Merge(record.Record{}, owned(shows("a", 20), key, "", record.Absent))
				assert.Empty(t, empty.Entries, "what was never there is not recorded")
			})
		}
	}
}

func TestMergeForgetsTheOldestOfNineObjects(t *testing.T) {
	r := merged(shows("U1", 10, label, "a", "old", "x"), shows("U1", 11, label, "a"))
	for n := range record.Version(record.MaxObjects - 1) {
		r = record.Merge(r, shows(types.UID(fmt.Sprint("U", n+2)), 20+n))
	}
	assert.Len(t, r.Seen, record.MaxObjects)
	assert.Zero(t, r.Floor)
	_, removed := r.Entry("old")
	assert.True(t, removed)

	r = record.Merge(r, shows("U9", 30))
	assert.Len(t, r.Seen, record.MaxObjects)
	assert.Equal(t, record.Version(11), r.Floor)
	_, removed = r.Entry("old")
	assert.False(t, removed, "a removal that proves nothing any more is dropped")
	assert.Equal(t, map[string]string{label: "a"}, r.Items(), "a value stays")

	assert.Equal(t, r, record.Merge(r, shows("U1", 11, label, "z")), "an observation from before is too late")
	assert.Equal(t, map[string]string{label: "a"}, record.Merge(r, shows("U2", 19)).Items(),
		"the value is not taken for one of the oldest object that is known: that never had it")
}

func TestMergeChangesNoRecordThatItIsGiven(t *testing.T) {
	r := merged(shows("U1", 5, "a", "1", "c", "1"))
	head, err := record.Encode(r)
	require.NoError(t, err)
	record.Merge(r, shows("U1", 6, "b", "2", "c", "2"))
	record.Merge(r, shows("U2", 7))
	tail, err := record.Encode(r)
	require.NoError(t, err)
	assert.Equal(t, string(head), string(tail))
}

func TestMergeNotesWhenTheNewestObjectIsDeleted(t *testing.T) {
	instant := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	ends := func(uid types.UID, version record.Version) record.Observation {
		o := shows(uid, version)
		o.DeletedAt = instant
		return o
	}
	r := merged(shows("U1", 5), ends("U1", 6))
	assert.Equal(t, instant, r.DeletedAt)
	assert.Equal(t, instant, record.Merge(r, shows("U1", 5)).DeletedAt, "a state from before says nothing")
	assert.Zero(t, record.Merge(r, shows("U2", 9)).DeletedAt, "it registered again")
	assert.Zero(t, record.Merge(record.Merge(r, shows("U2", 9)), ends("U1", 6)).DeletedAt, "that was the object before")
	assert.Zero(t, merged(shows("U2", 9), ends("U1", 6)).DeletedAt)
}

func TestTheRecordSaysWhatTheNewestObjectDoesNotShow(t *testing.T) {
	r := merged(shows("U1", 5, label, "a", taint, "a"), given(shows("U2", 9), label, "a", 0))
	shown, _ := r.Entry(label)
	hidden, _ := r.Entry(taint)
	assert.False(t, shown.NotShown)
	assert.True(t, hidden.NotShown)
	r = record.Merge(r, shows("U1", 4))
	shown, _ = r.Entry(label)
	assert.False(t, shown.NotShown, "an older state does not change that")
}
