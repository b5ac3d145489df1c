package harness_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// failing is a test that may fail.
type failing struct {
	testing.TB
	failed bool
}

func (*failing) Helper()                 {}
func (f *failing) Errorf(string, ...any) { f.failed = true }
func (*failing) FailNow()                { runtime.Goexit() }

func TestAConditionCanEndItsTest(t *testing.T) {
	for name, c := range map[string]struct {
		holds  func(f *failing) bool
		failed bool
	}{
		"it holds":         {func(*failing) bool { return true }, false},
		"it ends the test": {func(f *failing) bool { require.Fail(f, "no answer"); return true }, true},
		"it does not hold": {func(*failing) bool { return false }, true},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := time.Minute
			if name == "it does not hold" {
				timeout = time.Millisecond
			}
			f, ended := &failing{TB: t}, make(chan struct{})
			returned := false
			go func() {
				defer close(ended)
				harness.Eventually(f, func() bool { return c.holds(f) }, timeout, time.Millisecond)
				returned = true
			}()
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				require.Fail(t, "it waits on")
			}
			assert.Equal(t, c.failed, f.failed)
			assert.Equal(t, !c.failed, returned)
		})
	}
}
