package storetest

import (
	"fmt"
	"sync"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/store"
)

func refusesRemoved(s subject) {
	entry := s.put(s.record("ci"), "")
	s.Remove(s.node)
	s.conflicts(s.record("late"), entry.Version)
	s.lacks()
}

func forgets(s subject) {
	s.put(s.record("ci"), "")
	s.Remove(s.node)
	s.lacks()
	s.Remove(s.node)
	s.lacks()
}

func deletes(s subject) {
	first := s.put(s.record("ci"), "")
	second := s.put(s.record("gpu"), first.Version)
	require.NoError(s.t, s.Delete(s.t.Context(), s.node, second.Version))
	s.isGone()
	s.remains(second.Version)
	again := s.put(s.record("ci"), "")
	s.holds(again)
	require.NoError(s.t, s.Delete(s.t.Context(), s.node, again.Version))
	s.isGone()
}

func deletesNoOther(s subject) {
	first := s.put(s.record("ci"), "")
	second := s.put(s.record("gpu"), first.Version)
	s.remains(first.Version)
	s.holds(second)

	s.Tamper(s.node, []byte("{"))
	s.remains(second.Version)
	s.unusable()
}

func deletesNoLaterLife(s subject) {
	first := s.put(s.record("ci"), "")
	s.Remove(s.node)
	second := s.put(s.record("ci"), "")
	s.remains(first.Version)
	s.holds(second)
}

func deletesNothingUnread(s subject) {
	s.remains("")
	entry := s.put(s.record("ci"), "")
	s.remains("")
	s.holds(entry)
}

func refusesDeleted(s subject) {
	entry := s.put(s.record("ci"), "")
	require.NoError(s.t, s.Delete(s.t.Context(), s.node, entry.Version))
	s.conflicts(s.record("late"), entry.Version)
	s.isGone()
}

// oneDeletes lets one delete and many write over the same version at the same time.
func oneDeletes(s subject) {
	for round := range 5 {
		before := s.put(s.record(fmt.Sprint(round)), "")
		const writers = 3
		var entries [writers]store.Entry
		var errs [writers + 1]error
		var all sync.WaitGroup
		all.Go(func() { errs[writers] = s.Delete(s.t.Context(), s.node, before.Version) })
		for i := range writers {
			all.Go(func() {
				entries[i], errs[i] = s.Put(s.t.Context(), s.record(fmt.Sprintf("over-%d-%d", round, i)), before.Version)
			})
		}
		all.Wait()
		won := -1
		for i, err := range errs {
			if err != nil {
				require.ErrorIs(s.t, err, store.ErrConflict)
				continue
			}
			require.Equal(s.t, -1, won, "two have won")
			won = i
		}
		require.NotEqual(s.t, -1, won, "nobody has won")
		if won == writers {
			s.isGone()
			continue
		}
		s.holds(entries[won])
		require.NoError(s.t, s.Delete(s.t.Context(), s.node, entries[won].Version))
		s.isGone()
	}
}
