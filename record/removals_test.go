package record_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
)

// removals returns the keys that a record holds as removed.
func removals(r record.Record) (keys []string) {
	for _, e := range r.Entries {
		if e.Removed {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

// kept returns pairs of a label that nobody removes, with others.
func kept(pairs ...string) []string { return append([]string{"kept", "1"}, pairs...) }

// churned returns a record of a Node on which clients set labels and removed each, one after another. It returns the first that was removed.
func churned(t *testing.T, count int, key func(int) string) (r record.Record, last record.Version) {
	t.Helper()
	version := record.Version(100)
	r = record.Merge(r, shows("U1", 10, kept(key(0), "old")...)) // an object before, whose last state another process may observe late
	for i := range count {
		r = record.Merge(r, shows("U2", version, kept(key(i), "v")...))
		r = record.Merge(r, shows("U2", version+1, kept()...))
		version += 2
		require.LessOrEqual(t, len(removals(r)), record.MaxRemovals)
	}
	data, err := record.Encode(r)
	require.NoError(t, err)
	require.Less(t, len(data), record.MaxBytes/2)
	return r, version
}

func TestARecordDoesNotGrowByWhatClientsRemove(t *testing.T) {
	for name, key := range map[string]func(int) string{
		"short keys": func(i int) string { return fmt.Sprintf("k-%04d", i) },
		"the longest keys": func(i int) string {
			domain := strings.Join([]string{strings.Repeat("a", 63), strings.Repeat("b", 63), strings.Repeat("c", 63), strings.Repeat("d", 61)}, ".")
			return fmt.Sprintf("%s/%059d", domain, i)
		},
	} {
		t.Run(name, func(t *testing.T) {
			const count = 2000
			r, version := churned(t, count, key)
			left := removals(r)
			assert.Greater(t, len(left), 100)
			assert.True(t, slices.Contains(left, key(count-1)), "the newest are there")
			assert.False(t, slices.Contains(left, key(0)), "the oldest are not")

			for _, late := range []record.Observation{
				shows("U1", 10, kept(key(0), "old")...), shows("U1", 11, kept(key(0), "new")...), shows("U2", 100, kept(key(0), "v")...),
			} {
				assert.Equal(t, map[string]string{"kept": "1"}, record.Merge(r, late).Items(), "what was observed up to there does not count any more")
			}
			r = record.Merge(r, shows("U2", version))
			assert.Empty(t, r.Items(), "what is removed on the Node that lives is removed")
			assert.Empty(t, record.Missing(r, shows("U2", version)))
		})
	}
}

func TestWhatIsRemovedInOneEditIsBoundedToo(t *testing.T) {
	var pairs []string
	for i := range 3 * record.MaxRemovals {
		pairs = append(pairs, fmt.Sprintf("k-%04d", i), "v")
	}
	r := record.Merge(record.Record{}, shows("U1", 100, kept(pairs...)...))
	r = record.Merge(r, shows("U1", 200, kept()...))
	assert.Len(t, removals(r), record.MaxRemovals)
	assert.Equal(t, map[string]string{"kept": "1"}, record.Merge(r, shows("U1", 150, kept("k-0000", "late")...)).Items(), "an older state of this object brings nothing back")
	assert.Empty(t, record.Merge(r, shows("U1", 300)).Items(), "what is removed later is removed")

	next := record.Merge(r, shows("U2", 400))
	assert.Equal(t, map[string]string{"kept": "1"}, record.Missing(next, shows("U2", 400)), "the next object gets what was not removed")
}

func TestRemovalsThatTheStampProvesAgainAndAgainLeadToNoWrite(t *testing.T) {
	o := shows("U1", 100)
	for i := range 2 * record.MaxRemovals {
		o = listed(o, fmt.Sprintf("k-%04d", i), "v", 0)
	}
	r := record.Merge(record.Record{}, o)
	require.Len(t, removals(r), record.MaxRemovals)
	for range 3 {
		o.Version++
		next := record.Merge(r, o)
		assert.False(t, record.WorthWriting(r, next, o, true))
		r = next
	}
}

func TestTheRemovalsOfAMachineThatIsQuarantinedAreBounded(t *testing.T) {
	old, version := churned(t, record.MaxRemovals, func(i int) string { return fmt.Sprintf("k-%04d", i) })
	r := record.Merge(record.Isolate(old, record.Machine{SystemUUID: "B"}, version+99, record.EarlierRetention{}), shows("U3", version+100, label, "b"))
	r = record.Merge(r, shows("U2", version, kept("one-more", "v")...))
	r = record.Merge(r, shows("U2", version+1, kept()...))
	assert.LessOrEqual(t, len(removals(*r.Quarantined)), record.MaxRemovals)
	assert.Equal(t, map[string]string{"kept": "1"}, r.Quarantined.Items())
}

func TestALabelThatAnotherComponentHidSinceIsStillRecordedAsRemoved(t *testing.T) {
	r := record.Merge(record.Record{}, shows("U1", 10, "hidden", "client"))
	version := record.Version(100)
	for i := range 2 * record.MaxRemovals {
		o := owned(shows("U1", version, fmt.Sprintf("k-%04d", i), "v"), "hidden", "other", record.OtherOwner)
		r = record.Merge(r, o)
		r = record.Merge(r, owned(shows("U1", version+1), "hidden", "other", record.OtherOwner))
		version += 2
	}
	require.LessOrEqual(t, len(removals(r)), record.MaxRemovals)
	require.Equal(t, map[string]string{"hidden": "client"}, r.Items())
	assert.Empty(t, record.Merge(r, shows("U1", version)).Items())
}

// A Node is edited, deleted and registered again, with far more keys than the bound. Each state is observed, and any earlier one again.
func TestTheBoundLosesNothingThatWasObserved(t *testing.T) {
	const steps = 8 * record.MaxRemovals
	for seed := range uint64(2) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r, now, object, version := record.Record{}, map[string]string{}, 1, record.Version(10)
		stamp := record.Stamp{}
		var all []record.Observation
		observe := func() record.Observation {
			o := record.Observation{UID: types.UID(fmt.Sprint(object)), Version: version, Items: map[string]record.Item{}, Stamp: stamp}
			for key, value := range now {
				owner := record.Client
				if given, ok := stamp.Given[key]; ok && given.Value == value {
					owner = record.NoOwner
				}
				o.Items[key] = record.Item{Value: value, Owner: owner}
			}
			version++
			return o
		}
		for range steps {
			shown := slices.Sorted(maps.Keys(now))
			switch {
			case rng.IntN(100) == 0: // it registers again, and the webhook restores what is recorded
				object++
				now = r.Items()
				stamp = record.Stamp{}.Merge(now, r, 0)
			case len(shown) > 0 && rng.IntN(len(shown)+5) > 4:
				delete(now, shown[rng.IntN(len(shown))])
			default:
				now[fmt.Sprintf("k-%04d", version)] = "v"
			}
			o := observe()
			all = append(all, o)
			r = record.Merge(r, o)
			if reread := all[rng.IntN(len(all))]; rng.IntN(3) == 0 {
				r = record.Merge(r, reread)
			}
			require.Equal(t, now, r.Items(), "seed %d, at version %d", seed, version-1)
			require.LessOrEqual(t, len(removals(r)), record.MaxRemovals)
		}
		require.NotZero(t, r.Floor)
	}
}
