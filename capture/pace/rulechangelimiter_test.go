package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func TestATurnComesToEachNodeAtThePaceAndOnce(t *testing.T) {
	turns := NewRuleChangeLimiter(2)
	require.Zero(t, turns.Wait("a", now), "as many as a second has come at once")
	require.Zero(t, turns.Wait("b", now))
	assert.Equal(t, 500*time.Millisecond, turns.Wait("c", now))
	assert.Equal(t, time.Second, turns.Wait("d", now))
	assert.Equal(t, 300*time.Millisecond, turns.Wait("c", now.Add(200*time.Millisecond)), "who asks again keeps the turn")
	assert.Zero(t, turns.Wait("c", now.Add(time.Second)), "the turn has come")
	assert.Equal(t, 500*time.Millisecond, turns.Wait("c", now.Add(time.Second)), "and is used up")
	turns.Forget("d")
	assert.NotContains(t, turns.turns, "d", "a deleted Node leaves nothing behind")
	assert.Equal(t, DefaultLabelPatchesPerSecond, NewRuleChangeLimiter(0).limit.Burst())
}
