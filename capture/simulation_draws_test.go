package capture_test

import (
	"math"
	"math/rand/v2"
	"slices"
)

// draws is a source of random numbers that logs them and can replay them in part: a scenario with fewer draws is a shorter scenario.
type draws struct {
	source *rand.PCG // nil: only the logged numbers
	logged []uint64
	at     int
}

func (d *draws) Uint64() uint64 {
	if d.at == len(d.logged) {
		if d.source == nil {
			return math.MaxUint64 // nothing happens by this draw
		}
		d.logged = append(d.logged, d.source.Uint64())
	}
	d.at++
	return d.logged[d.at-1]
}

// ended reports whether all logged draws are used.
func (d *draws) ended() bool { return d.source == nil && d.at == len(d.logged) }

// shrink removes draws as long as the scenario fails in the same way, and for no more than so many attempts.
func shrink(logged []uint64, attempts int, fails func([]uint64) bool) []uint64 {
	for before := -1; before != len(logged); {
		before = len(logged)
		for size := len(logged) / 2; size > 0; size /= 2 {
			for at := len(logged) - size; at >= 0; {
				if attempts--; attempts < 0 {
					return logged
				}
				if less := slices.Delete(slices.Clone(logged), at, at+size); fails(less) {
					logged = less
				}
				at = min(at-1, len(logged)-size)
				if size > 8 {
					at -= size / 4
				}
			}
		}
	}
	return logged
}
