package pace

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestARefusedItemWaitsTwiceAsLongEachTime(t *testing.T) {
	refusals, moment := NewRefusals(), now
	for pause := FirstPause; pause <= 2*LongestPause; pause *= 2 {
		refusals.NoteRefused("a", "team", moment)
		items, wait := refusals.Waiting("a", moment)
		assert.Equal(t, map[string]bool{"team": true}, items)
		assert.Equal(t, min(pause, LongestPause), wait)
		moment = moment.Add(wait)
		items, wait = refusals.Waiting("a", moment)
		assert.Empty(t, items)
		assert.Zero(t, wait)
	}
	items, _ := refusals.Waiting("b", now)
	assert.Empty(t, items, "another object")
}

func TestTheNextRefusedItemSaysWhenToTryAgain(t *testing.T) {
	refusals := NewRefusals()
	refusals.NoteRefused("a", "team", now)
	refusals.NoteRefused("a", "rack", now)
	refusals.NoteRefused("a", "rack", now)
	items, wait := refusals.Waiting("a", now)
	assert.Equal(t, map[string]bool{"team": true, "rack": true}, items)
	assert.Equal(t, FirstPause, wait)
	refusals.NoteAccepted("a", "team")
	refusals.NoteAccepted("unseen", "team")
	items, wait = refusals.Waiting("a", now)
	assert.Equal(t, map[string]bool{"rack": true}, items)
	assert.Equal(t, 2*FirstPause, wait)
}

func TestRefusalsLeaveNothingBehind(t *testing.T) {
	refusals := NewRefusals()
	assert.Equal(t, 1, refusals.NoteWholeRefusal("a"))
	assert.Equal(t, 2, refusals.NoteWholeRefusal("a"))
	refusals.NoteRefused("b", "team", now)
	refusals.Forget("a")
	assert.Equal(t, 1, refusals.NoteWholeRefusal("a"), "of a deleted object nothing is known")
	refusals.Clear()
	items, _ := refusals.Waiting("b", now.Add(time.Millisecond))
	assert.Empty(t, items)
	assert.Empty(t, refusals.byUID)
}

func TestNewsIsReportedOnceOfEachObjectAndIsBounded(t *testing.T) {
	first := NewNotices()
	assert.True(t, first.First("a", "x"))
	assert.False(t, first.First("a", "x"))
	assert.True(t, first.First("b", "x"), "another object")
	first.Reset("a", "x")
	first.Reset("unseen", "x")
	assert.True(t, first.First("a", "x"))
	for i := range 2 * maxNotices {
		first.First("a", fmt.Sprint(i))
	}
	assert.Len(t, first.byUID["a"], maxNotices)
	assert.False(t, first.First("a", "one more"))
	first.Forget("a")
	assert.True(t, first.First("a", "one more"))
	first.Clear()
	assert.Empty(t, first.byUID)
}
