package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTheRecordOfANodeThatChangesAllTheTimeIsWrittenOnceASecond(t *testing.T) {
	for name, c := range map[string]struct {
		interval, length time.Duration
		writes           int
	}{
		"every 20 ms for 10 s":      {20 * time.Millisecond, 10 * time.Second, 12},
		"every 20 ms for a minute":  {20 * time.Millisecond, time.Minute, 62},
		"every second for a minute": {time.Second, time.Minute, 60},
		"every 5 s for a minute":    {5 * time.Second, time.Minute, 12},
		"three at once":             {time.Millisecond, 3 * time.Millisecond, 3},
	} {
		t.Run(name, func(t *testing.T) {
			coalescer, writes := NewCoalescer(RecordInterval), 0
			for delay := time.Duration(0); delay < c.length; delay += c.interval {
				if coalescer.Wait("n1", now.Add(delay)) == 0 {
					coalescer.Wrote("n1", now.Add(delay))
					writes++
				}
			}
			assert.Equal(t, c.writes, writes)
			assert.Zero(t, coalescer.Wait("n2", now.Add(c.length)), "another Node must not wait")
		})
	}
}

func TestAWriteThatWaitsMayBeMadeWhenTheWaitIsOver(t *testing.T) {
	coalescer := NewCoalescer(RecordInterval)
	for range recordBurst {
		assert.Zero(t, coalescer.Wait("n1", now))
		coalescer.Wrote("n1", now)
	}
	wait := coalescer.Wait("n1", now.Add(300*time.Millisecond))
	assert.Equal(t, 700*time.Millisecond, wait)
	assert.Zero(t, coalescer.Wait("n1", now.Add(300*time.Millisecond+wait)))
}

func TestANodeThatWasQuietIsRecordedAtOnceAgain(t *testing.T) {
	coalescer := NewCoalescer(RecordInterval)
	for range 100 { // gate work does not ask, and must not be held against the Node for long
		if coalescer.Wait("n1", now) == 0 {
			coalescer.Wrote("n1", now)
		}
	}
	for range recordBurst {
		assert.Zero(t, coalescer.Wait("n1", now.Add(recordBurst*RecordInterval)))
		coalescer.Wrote("n1", now.Add(recordBurst*RecordInterval))
	}
}
