package capture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestARecentEntryIsKeptForOneWindowAndForgottenAfterTwo(t *testing.T) {
	r := recent[int, string]{window: time.Minute, most: 10}
	r.put(1, "a", now)
	for after, kept := range map[time.Duration]bool{0: true, time.Minute: true, time.Minute + 59*time.Second: true} {
		copied := r
		_, found := copied.get(1, now.Add(after))
		assert.Equal(t, kept, found, "after %s", after)
	}
	r.put(2, "b", now.Add(time.Minute))
	_, found := r.get(1, now.Add(2*time.Minute))
	assert.False(t, found)
	_, found = r.get(2, now.Add(2*time.Minute))
	assert.True(t, found)
	_, found = r.get(2, now.Add(time.Hour))
	assert.False(t, found)
}

func TestOfMoreEntriesThanMayBeKeptTheOldestAreForgotten(t *testing.T) {
	r := recent[int, int]{window: time.Minute, most: 10}
	for i := range 95 {
		r.put(i, i, now)
		assert.LessOrEqual(t, len(r.fresh)+len(r.former), 20)
	}
	for i := range 95 {
		_, found := r.get(i, now)
		assert.Equal(t, i >= 80, found, "entry %d", i)
	}
	r.put(94, 1, now) // no new entry
	value, _ := r.get(94, now)
	assert.Equal(t, 1, value)
}
