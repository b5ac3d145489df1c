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
	pos    int
}

func (d *draws) Uint64() uint64 {
	if d.pos == len(d.logged) {
		if d.source == nil {
			return math.MaxUint64 // nothing happens by this draw
		}
		d.logged = append(d.logged, d.source.Uint64())
	}
	d.pos++
	return d.logged[d.pos-1]
}

// ended reports whether all logged draws are used.
func (d *draws) ended() bool { return d.source == nil && d.pos == len(d.logged) }

// shrink removes draws as long as the scenario fails in the same way, and for no more than so many attempts.
func shrink(logged []uint64, attempts int, fails func([]uint64) bool) []uint64 {
	for index := -1; index != len(logged); {
		index = len(logged)
		for size := len(logged) / 2; size > 0; size /= 2 {
			for i := len(logged) - size; i >= 0; {
				if attempts--; attempts < 0 {
					return logged
				}
				if shorter := slices.Delete(slices.Clone(logged), i, i+size); fails(shorter) {
					logged = shorter
				}
				i = min(i-1, len(logged)-size)
				if size > 8 {
					i -= size / 4
				}
			}
		}
	}
	return logged
}
