package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestARecentEntryIsKeptForOneWindowAndForgottenAfterTwo(t *testing.T) {
	r := newRecent[string](time.Minute)
	r.put(1, "a", now)
	assert.Equal(t, "a", r.get(1, now.Add(time.Minute-1)))
	r.put(2, "b", now.Add(time.Minute))
	assert.Equal(t, "a", r.get(1, now.Add(2*time.Minute-1)))
	assert.Empty(t, r.get(1, now.Add(2*time.Minute)))
	assert.Equal(t, "b", r.get(2, now.Add(2*time.Minute)))
	assert.Empty(t, r.get(2, now.Add(time.Hour)))
}

func TestOfMoreEntriesThanMayBeKeptTheOldestAreForgotten(t *testing.T) {
	r := newRecent[int](time.Minute)
	assert.Equal(t, maxRemembered, r.limit)
	r.limit = 10
	for i := range 95 {
		r.put(i, i+1, now)
		assert.LessOrEqual(t, len(r.fresh)+len(r.previous), 20)
	}
	for i := range 95 {
		assert.Equal(t, i >= 80, r.get(i, now) > 0, "entry %d", i)
	}
	r.put(94, 1, now) // no new entry
	assert.Equal(t, 1, r.get(94, now))
	assert.Equal(t, 15, r.count(func(int) bool { return true }))
	r.put(81, 1, now) // of the window before
	assert.Equal(t, 15, r.count(func(int) bool { return true }), "each is counted once")
}
