package record_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
)

var (
	first        = record.Machine{SystemUUID: "first"}
	second       = record.Machine{SystemUUID: "second"}
	observedTime = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	hour         = record.EarlierRetention{Retention: time.Hour, Now: observedTime}
)

func inHandsOf(machine record.Machine, items map[string]string) record.Record {
	r := record.New("n", record.Object{UID: "U1", Version: 5}, items)
	r.Machine = machine
	return r
}

func TestAMachineThatReturnsGetsWhatItHadAndTheOtherOneKeepsItsOwn(t *testing.T) {
	begun := record.Merge(record.SetAside(inHandsOf(first, map[string]string{"rack": "1"}), second, 8, hour), shows("U2", 9, "rack", "2"))
	assert.Equal(t, map[string]string{"rack": "2"}, begun.Items())

	returned, found := record.Returned(begun, first, 19, hour)
	require.True(t, found)
	returned = record.Merge(returned, shows("U3", 20))
	assert.Equal(t, map[string]string{"rack": "1"}, returned.Items(), "lost with an older object")
	assert.Equal(t, map[string]string{"rack": "1"}, record.Missing(returned, shows("U3", 20)), "to be restored")
	reread, found := record.Returned(returned, second, 29, hour)
	require.True(t, found)
	assert.Equal(t, map[string]string{"rack": "2"}, reread.Items())
	require.Len(t, reread.Earlier, 1)
	assert.Equal(t, first, reread.Earlier[0].Machine)

	_, found = record.Returned(begun, first, 19, record.EarlierRetention{Retention: time.Hour, Now: observedTime.Add(2 * time.Hour)})
	assert.False(t, found, "longer ago than retention")
	_, found = record.Returned(begun, record.Machine{SystemUUID: "third"}, 19, record.EarlierRetention{Now: observedTime})
	assert.False(t, found)
	_, found = record.Returned(begun, record.Machine{}, 19, record.EarlierRetention{Now: observedTime})
	assert.False(t, found, "a machine that is not known is no machine's")
}

func TestAnIsolatedMachineKeepsItsOwnWhenTheOtherReturns(t *testing.T) {
	isolated := record.Merge(record.Isolate(inHandsOf(first, map[string]string{"rack": "1"}), second, 8, record.EarlierRetention{}), shows("U2", 9, "rack", "2"))
	returned, found := record.Returned(isolated, first, 19, record.EarlierRetention{Retention: time.Hour, Now: observedTime.Add(100 * time.Hour)})
	require.True(t, found, "what waits for an operator waits for ever")
	assert.Nil(t, returned.Quarantined)
	assert.Equal(t, map[string]string{"rack": "1"}, returned.Items())
	require.Len(t, returned.Earlier, 1)
	assert.Equal(t, map[string]string{"rack": "2"}, returned.Earlier[0].Items())
	assert.Nil(t, returned.Earlier[0].Quarantined)

	ended := record.EndQuarantine(isolated, hour)
	assert.Equal(t, map[string]string{"rack": "2"}, ended.Items(), "the machine that has the name keeps its own")
	require.Len(t, ended.Earlier, 1)
	assert.Equal(t, map[string]string{"rack": "1"}, ended.Earlier[0].Items())
}

func TestALateObservationCountsForTheMachineWhoseObjectItWas(t *testing.T) {
	begun := record.Merge(record.SetAside(inHandsOf(first, map[string]string{"rack": "1"}), second, 8, hour), shows("U2", 9, "rack", "2"))
	late := record.Merge(begun, shows("U1", 7, "rack", "late"))
	assert.Equal(t, map[string]string{"rack": "2"}, late.Items())
	assert.Equal(t, map[string]string{"rack": "late"}, late.Earlier[0].Items())
	assert.Equal(t, map[string]string{"rack": "1"}, begun.Earlier[0].Items(), "the record before is the caller's")
	assert.True(t, record.WorthWriting(begun, late, shows("U1", 7, "rack", "late"), true))
	unknown := record.Merge(begun, shows("U0", 3, "rack", "unknown"))
	assert.Equal(t, begun, unknown)
}

func TestALateObservationOfAMachineThatNoRecordIsOfBeginsOneAndSaysNothingOfTheMachineThatHasTheName(t *testing.T) {
	r := inHandsOf(second, map[string]string{"rack": "2"})
	late := shows("U0", 3, "rack", "late")
	blank := shows("U0", 3)
	blank.Machine = first
	assert.Equal(t, r, record.Merge(r, blank))
	late.Machine = first
	next := record.Merge(r, late)
	assert.Equal(t, r.Items(), next.Items())
	require.Len(t, next.Earlier, 1)
	assert.Equal(t, first, next.Earlier[0].Machine)
	assert.Equal(t, map[string]string{"rack": "late"}, next.Earlier[0].Items())
	assert.True(t, record.WorthWriting(r, next, late, true))
	assert.Len(t, next.Trimmed(record.EarlierRetention{Retention: time.Hour, Now: observedTime}).Earlier, 1, "nothing says since when it is deleted")

	full := r
	for i := range record.MaxEarlier {
		full.Earlier = append(full.Earlier, inHandsOf(record.Machine{SystemUUID: fmt.Sprint("machine-", i)}, nil))
	}
	assert.Equal(t, full, record.Merge(full, late))
}

func TestWhatIsObservedLateLeavesAnEarlierRecordDeletedAndHoldsNoOtherOne(t *testing.T) {
	third := record.Machine{SystemUUID: "third"}
	r := record.Merge(inHandsOf(first, map[string]string{"rack": "1"}), shows("U2", 9, "rack", "2")) // under a policy that goes by the name
	r.Machine = second
	r = record.Merge(record.SetAside(r, third, 28, hour), shows("U3", 29, "rack", "3"))
	late := shows("U1", 7, "late", "x")
	late.Machine = first
	next := record.Merge(r, late)
	require.Len(t, next.Earlier, 1)
	assert.Equal(t, map[string]string{"rack": "2", "late": "x"}, next.Earlier[0].Items(), "it counts for the record that knows the object")
	assert.Empty(t, next.Earlier[0].Earlier)
	assert.Equal(t, observedTime, next.Earlier[0].DeletedAt)
}

func TestAThirdMachineOfAQuarantinedNameHasWhatItHadItselfAndTheQuarantineStays(t *testing.T) {
	third := record.Machine{SystemUUID: "third"}
	prev := inHandsOf(first, map[string]string{"rack": "1"})
	prev.Cluster = "here"
	isolated := record.Merge(record.Isolate(prev, second, 8, hour), shows("U2", 9, "rack", "2"))
	next := record.Merge(record.Isolate(isolated, third, 18, hour), shows("U3", 19, "rack", "3"))
	assert.Equal(t, map[string]string{"rack": "3"}, next.Items())
	assert.Equal(t, map[string]string{"rack": "1"}, next.Quarantined.Items())
	returned := record.Isolate(next, second, 28, hour)
	require.True(t, returned.WholeRecordQuarantined(), "what waits for an operator waits still")
	assert.Equal(t, map[string]string{"rack": "2"}, returned.Items())
	assert.Equal(t, map[string]string{"rack": "1"}, returned.Quarantined.Items())
	assert.Equal(t, "here", returned.Cluster)
	require.Len(t, returned.Earlier, 1)
	assert.Equal(t, third, returned.Earlier[0].Machine)
	current, found := record.Returned(returned, first, 38, hour)
	require.True(t, found)
	assert.Nil(t, current.Quarantined)
	assert.Len(t, current.Earlier, 2)

	follower := inHandsOf(first, nil)
	follower.Followed, follower.Quarantined = "other", &record.Record{Node: "n"}
	begun := record.Isolate(record.SetAside(follower, second, 8, hour), first, 18, hour)
	assert.Empty(t, begun.Followed, "what it followed waits by itself")
	assert.True(t, begun.Blank() || begun.WholeRecordQuarantined())
}

func TestARecordKeepsTheLastMachinesAndNoneThatHadNothing(t *testing.T) {
	r := inHandsOf(first, nil)
	for i := range record.Version(2 * record.MaxEarlier) {
		machine, version := record.Machine{SystemUUID: fmt.Sprint("machine-", i)}, 10*(i+1)
		r = record.Merge(record.SetAside(r, machine, version-1, hour), shows(types.UID(fmt.Sprint("V", i)), version, "rack", fmt.Sprint(i)))
	}
	require.Len(t, r.Earlier, record.MaxEarlier)
	assert.Equal(t, "machine-7", r.Earlier[0].Machine.SystemUUID)
	assert.Equal(t, "machine-14", r.Earlier[record.MaxEarlier-1].Machine.SystemUUID)
	assert.False(t, r.Empty())
	rebased, foreign := func() (record.Record, bool) { r.Cluster = "one"; return r.Rebase("another", 1000) }()
	require.True(t, foreign)
	assert.Zero(t, rebased.Earlier[0].Newest(), "versions of another cluster mean nothing")
	assert.Equal(t, map[string]string{"rack": "7"}, rebased.Earlier[0].Items())
}

func TestNoMachineThatAKubeletForgesTakesThePlaceOfOneThatHadAProtectedLabel(t *testing.T) {
	keeping := record.EarlierRetention{Now: observedTime, Protected: func(item string) bool { return strings.HasPrefix(item, "node-restriction.kubernetes.io/") }}
	r := inHandsOf(first, map[string]string{"node-restriction.kubernetes.io/tier": "gold", "rack": "1"})
	for i := range record.Version(3 * record.MaxEarlier) {
		version := 10 * (i + 1)
		r = record.Merge(record.SetAside(r, record.Machine{SystemUUID: fmt.Sprint("forged-", i)}, version-1, keeping), shows(types.UID(fmt.Sprint("V", i)), version, "mine", fmt.Sprint(i)))
	}
	require.Len(t, r.Earlier, record.MaxEarlier)
	assert.Equal(t, "forged-22", r.Earlier[record.MaxEarlier-2].Machine.SystemUUID, "of the others, the last ones are kept")
	assert.Equal(t, first, r.Earlier[record.MaxEarlier-1].Machine, "the last one gives way last")
	returned, found := record.Returned(r, first, 999, keeping)
	require.True(t, found)
	assert.Equal(t, map[string]string{"node-restriction.kubernetes.io/tier": "gold", "rack": "1"}, returned.Items())

	for i := range record.Version(record.MaxEarlier) { // if all have one, the first of them goes
		version := 1000 + 10*i
		r = record.Merge(record.SetAside(r, record.Machine{SystemUUID: fmt.Sprint("machine-", i)}, version-1, keeping),
			shows(types.UID(fmt.Sprint("W", i)), version, "node-restriction.kubernetes.io/tier", "gold"))
	}
	r = record.SetAside(r, second, 2000, keeping)
	require.Len(t, r.Earlier, record.MaxEarlier)
	assert.Equal(t, "machine-0", r.Earlier[0].Machine.SystemUUID)
}

func TestWhatARecordKeepsOfMachinesBeforeEndsWithRetention(t *testing.T) {
	begun := record.Merge(record.SetAside(inHandsOf(first, map[string]string{"rack": "1"}), second, 8, hour), shows("U2", 9, "rack", "2"))
	later := record.EarlierRetention{Retention: time.Hour, Now: observedTime.Add(2 * time.Hour)}
	assert.Empty(t, begun.Trimmed(later).Earlier)
	assert.Len(t, begun.Trimmed(record.EarlierRetention{Now: observedTime.Add(9999 * time.Hour)}).Earlier, 1, "no retention is for ever")
	third := record.SetAside(begun, record.Machine{SystemUUID: "third"}, 29, later)
	require.Len(t, third.Earlier, 1)
	assert.Equal(t, second, third.Earlier[0].Machine)
	assert.Len(t, begun.Earlier, 1, "the record before is the caller's")
}

func TestAMachineIsFollowedFromAnEarlierRecordOfAName(t *testing.T) {
	begun := record.Merge(record.SetAside(inHandsOf(record.Machine{SystemUUID: "4c4c4544-0001"}, map[string]string{"rack": "1"}), record.Machine{SystemUUID: "4c4c4544-0002"}, 8, hour), shows("U2", 9, "rack", "2"))
	records := hour.Flatten([]record.Record{begun})
	old, found, _ := record.Predecessor("m", record.Machine{SystemUUID: "4c4c4544-0001"}, records)
	require.True(t, found)
	assert.Equal(t, map[string]string{"rack": "1"}, old.Items())
	assert.True(t, record.SetAsideByAnother(old, records))
	assert.False(t, record.SetAsideByAnother(begun, records))

	_, found, _ = record.Predecessor("m", record.Machine{SystemUUID: "4c4c4544-0001"}, record.EarlierRetention{Retention: time.Hour, Now: observedTime.Add(2 * time.Hour)}.Flatten([]record.Record{begun}))
	assert.False(t, found, "longer ago than retention")

	moved := record.Record{Node: "k", Machine: begun.Machine, Followed: "n", Seen: []record.Object{{UID: "K", Version: 30}}, DeletedAt: observedTime}
	_, found, _ = record.Predecessor("m", record.Machine{SystemUUID: "4c4c4544-0001"}, append(records, moved))
	assert.True(t, found, "another machine of the name has moved on, not this one")

	o := record.SetAside(inHandsOf(second, map[string]string{"rack": "3"}), old.Machine, 49, hour)
	assert.Equal(t, o, record.Record{}.InPlaceOf(o), "it follows none")
	follows := record.Follow(old, "m", old.Machine, func(string) bool { return false }).InPlaceOf(o)
	assert.Equal(t, map[string]string{"rack": "1"}, follows.Items())
	assert.Equal(t, "n", follows.Followed)
	assert.Equal(t, o.Earlier, follows.Earlier)
	assert.Equal(t, record.Version(49), follows.Floor)
}
