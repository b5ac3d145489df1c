//go:build oldcore

package capture

import (
	"math"
	"math/rand/v2"
	"slices"
)

// tape is a source of random numbers that remembers them, and plays them again in part: a story with fewer of its throws
// is a shorter story.
type tape struct {
	source *rand.PCG // nil: only what is on the tape
	throws []uint64
	at     int
}

func (t *tape) Uint64() uint64 {
	if t.at == len(t.throws) {
		if t.source == nil {
			return math.MaxUint64 // nothing happens by this throw
		}
		t.throws = append(t.throws, t.source.Uint64())
	}
	t.at++
	return t.throws[t.at-1]
}

// ended reports whether the story is over because its tape is.
func (t *tape) ended() bool { return t.source == nil && t.at == len(t.throws) }

// shrink leaves out throws as long as the story ends in the same way.
func shrink(throws []uint64, fails func([]uint64) bool) []uint64 {
	for before := -1; before != len(throws); {
		before = len(throws)
		for size := len(throws) / 2; size > 0; size /= 2 {
			for at := len(throws) - size; at >= 0; {
				if less := slices.Delete(slices.Clone(throws), at, at+size); fails(less) {
					throws = less
				}
				at = min(at-1, len(throws)-size)
				if size > 8 {
					at -= size / 4
				}
			}
		}
	}
	return throws
}
