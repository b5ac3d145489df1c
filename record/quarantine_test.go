package record_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/record"
)

func TestQuarantine(t *testing.T) {
	old := merged(shows("U1", 5, label, "a"))
	old.Node, old.Machine = "worker-1", record.Machine{SystemUUID: "A"}
	o := record.Machine{SystemUUID: "B"}
	r := record.Merge(record.Isolate(old, o, 8, record.EarlierRetention{}), shows("U2", 9, taint, "b"))
	assert.Equal(t, map[string]string{taint: "b"}, r.Items())
	assert.Equal(t, o, r.Machine)
	assert.Equal(t, "worker-1", r.Node)
	assert.True(t, record.WorthWriting(old, r, shows("U2", 9), false))
	assert.Empty(t, record.Missing(r, shows("U3", 20)), "nothing is restored")
	correct, remove := record.Stale(r, given(shows("U3", 20), taint, "z", 0))
	assert.Empty(t, correct)
	assert.Empty(t, remove)

	late := shows("U1", 7, label, "c")
	next := record.Merge(r, late)
	assert.Equal(t, map[string]string{label: "c"}, next.Quarantined.Items(), "the end of the machine before counts for that machine")
	assert.Equal(t, map[string]string{label: "a"}, r.Quarantined.Items(), "and the record that was read is as it was")
	assert.Equal(t, map[string]string{taint: "b"}, next.Items())
	assert.True(t, record.WorthWriting(r, next, late, false))
	assert.Equal(t, map[string]string{label: "a"}, record.Merge(r, shows("U2", 8, label, "z")).Quarantined.Items(), "an older state of the new machine does not")

	accepted := record.AcceptNew(next)
	assert.Nil(t, accepted.Quarantined)
	assert.Equal(t, map[string]string{taint: "b"}, record.Merge(accepted, late).Items(), "what the machine before showed is not restored")

	next = record.Merge(next, shows("U2", 10, taint, "b", "new", "x"))
	accepted = record.AcceptOld(next, record.Object{})
	assert.Nil(t, accepted.Quarantined)
	assert.Equal(t, map[string]string{label: "c"}, accepted.Items())
	assert.Equal(t, o, accepted.Machine, "for the machine that has the name now")
	assert.Equal(t, map[string]string{label: "c"}, record.Missing(accepted, shows("U2", 10, taint, "b")))
	assert.Equal(t, map[string]string{label: "c"}, record.Merge(accepted, shows("U2", 9, "late", "x")).Items(), "an older state does not count")
	assert.Equal(t, map[string]string{label: "c", taint: "b"}, record.Merge(accepted, shows("U2", 10, taint, "b")).Items(), "what the Node shows does")
	accepted = record.AcceptOld(next, record.Object{UID: "U3", Version: 20})
	assert.Equal(t, map[string]string{label: "c"}, record.Merge(accepted, shows("U3", 19, label, "x")).Items(), "nor what nobody had observed at the decision")
	assert.Equal(t, map[string]string{label: "x"}, record.Merge(accepted, shows("U3", 20, label, "x")).Items())
	assert.Equal(t, old, record.AcceptOld(old, record.Object{}), "nothing is quarantined")
	assert.Equal(t, old, record.AcceptNew(old), "nothing is quarantined")
}

func TestAQuarantineThatThePolicyEndsGivesTheMachineTheOldRecordAndKeepsWhatWasSetOnItSince(t *testing.T) {
	old := merged(shows("U1", 5, label, "a", taint, "old", "removed", "x"), shows("U1", 6, label, "a", taint, "old"))
	old.Machine = record.Machine{SystemUUID: "A"}
	o := record.Machine{SystemUUID: "B"}
	r := record.Merge(record.Merge(record.Isolate(old, o, 8, record.EarlierRetention{}), shows("U2", 9)), shows("U2", 10, taint, "b", "own", "x"))
	released := record.Release(r)
	assert.Nil(t, released.Quarantined)
	assert.Equal(t, map[string]string{label: "a", taint: "b", "own": "x"}, released.Items())
	assert.Equal(t, o, released.Machine)
	node := shows("U2", 11, taint, "b", "own", "x")
	assert.Equal(t, map[string]string{label: "a"}, record.Missing(record.Merge(released, node), node), "the live Node gets what it lacks")
	assert.Equal(t, released.Items(), record.Merge(released, node).Items(), "that it lacks it is no removal")
	removed, known := released.Entry("removed")
	assert.True(t, known && removed.Removed, "what was removed from the old machine stays so")
	assert.Equal(t, old, record.Release(old), "nothing is quarantined")
}

func TestARecordOfAnotherClusterKeepsItsValuesAndLosesItsVersions(t *testing.T) {
	r := merged(shows("U1", 5, label, "a", "gone", "x"), shows("U1", 6, label, "a"))
	r.Cluster = "here"
	match, foreign := r.Rebase("here", 6)
	assert.False(t, foreign)
	assert.Equal(t, r, match)
	for name, rebase := range map[string]func() (record.Record, bool){
		"another cluster":                     func() (record.Record, bool) { return r.Rebase("there", 100) },
		"a version that was never given out":  func() (record.Record, bool) { return r.Rebase("here", 5) },
		"the same, of a record without a UID": func() (record.Record, bool) { r := r; r.Cluster = ""; return r.Rebase("here", 5) },
	} {
		t.Run(name, func(t *testing.T) {
			rebased, foreign := rebase()
			assert.True(t, foreign)
			assert.Equal(t, map[string]string{label: "a"}, rebased.Items())
			assert.Empty(t, rebased.Seen)
			node := shows("N1", 3)
			assert.Equal(t, map[string]string{label: "a"}, record.Missing(record.Merge(rebased, node), node), "it is restored")
			assert.Equal(t, map[string]string{label: "a"}, record.Merge(record.Merge(rebased, node), shows("N1", 4)).Items(), "that the Node lacks it is no removal")
		})
	}
	mine, foreign := record.Record{Entries: r.Entries}.Rebase("here", 5)
	assert.False(t, foreign)
	assert.Equal(t, "here", mine.Cluster, "a record that an operator wrote is this cluster's")
}
