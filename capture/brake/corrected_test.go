package brake

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCorrectionsAreCountedOverAnHour(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	minute := func(age time.Duration) int64 { return now.Add(-age).Unix() / 60 }
	text := fmt.Sprintf(`{"%d": 3, "%d": 4, "%d": 100, "%d": -7, "%d": 50}`, minute(0), minute(59*time.Minute), minute(61*time.Minute), minute(time.Minute), minute(-10*time.Minute))
	count, ok := parseCounts(text, now)
	require.True(t, ok)
	assert.Equal(t, 7, count.nodes())
	assert.True(t, count.mayCorrect(80), "the eighth of eighty")
	assert.False(t, count.mayCorrect(70))
	reread, ok := parseCounts(count.encodeWithOneMore(now), now)
	require.True(t, ok)
	assert.Equal(t, 8, reread.nodes())

	empty, ok := parseCounts("", now)
	assert.True(t, ok && empty.mayCorrect(1), "a single Node may always be corrected")
	_, ok = parseCounts("no count", now)
	assert.False(t, ok)
}

func TestAnAcceptanceOfCorrectionsCountsForAnHour(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for text, accepted := range map[string]bool{
		now.Format(time.RFC3339):                        true,
		now.Add(-59 * time.Minute).Format(time.RFC3339): true,
		now.Add(-61 * time.Minute).Format(time.RFC3339): false,
		now.Add(24 * time.Hour).Format(time.RFC3339):    false,
		"yes": false, "": false,
	} {
		assert.Equal(t, accepted, acceptedWithinHour(text, now), text)
	}
}
