package harness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Eventually waits until a condition holds, and ends the test if it does not within that time; see [Becomes].
func Eventually(t testing.TB, holds func() bool, timeout, pause time.Duration, message ...any) {
	t.Helper()
	if !Becomes(holds, timeout, pause) {
		require.Fail(t, "Condition never satisfied", message...)
	}
}

// Becomes waits until a condition holds, and reports whether it does within that time. It asks the condition in the test's own goroutine, which testify
// does not. So the condition can use helpers that end the test.
func Becomes(holds func() bool, timeout, pause time.Duration) bool {
	for end := time.Now().Add(timeout); !holds(); time.Sleep(pause) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
