package storetest

import (
	"fmt"
	"sync"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/store"
)

func oneReplaces(s subject) {
	for range 5 {
		version := ""
		if entry, err := s.GetFromAPI(s.t.Context(), s.node); err == nil {
			version = entry.Version
		}
		oneWins(s, version)
	}
}

// oneWins lets many write over the same version at the same time. Each writes something new. The API server ignores a write that changes nothing, and
// answers it with the existing version.
func oneWins(s subject, version string) {
	const writers = 8
	var entries [writers]store.Entry
	var errs [writers]error
	var ready, done sync.WaitGroup
	ready.Add(writers)
	for i := range writers {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			entries[i], errs[i] = s.Put(s.t.Context(), s.record(fmt.Sprintf("over-%s-%d", version, i)), version)
		})
	}
	done.Wait()
	var winners []store.Entry
	for i, err := range errs {
		if err == nil {
			winners = append(winners, entries[i])
		} else {
			require.ErrorIs(s.t, err, store.ErrConflict)
		}
	}
	require.Len(s.t, winners, 1)
	s.holds(winners[0])
}

// oneDeletes lets one delete and many write over the same version at the same time.
func oneDeletes(s subject) {
	for round := range 5 {
		prev := s.put(s.record(fmt.Sprint(round)), "")
		const writers = 3
		var entries [writers]store.Entry
		var errs [writers + 1]error
		var all sync.WaitGroup
		all.Go(func() { errs[writers] = s.Delete(s.t.Context(), s.node, prev.Version) })
		for i := range writers {
			all.Go(func() {
				entries[i], errs[i] = s.Put(s.t.Context(), s.record(fmt.Sprintf("over-%d-%d", round, i)), prev.Version)
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
