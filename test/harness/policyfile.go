package harness

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// UsePolicy restarts both processes with another policy, and capture with these arguments behind its own. They are restarted as
// they were by restore, or at the end of the test.
func (i *Installation) UsePolicy(t testing.TB, content string, captureArgs ...string) (restore func()) {
	t.Helper()
	before, err := os.ReadFile(i.PolicyFile)
	require.NoError(t, err)
	argsBefore := i.CaptureArgs
	ctx := context.WithoutCancel(t.Context())
	use := func(content string, args []string) {
		t.Helper()
		require.NoError(t, sideBySide(i.StopWebhook, i.StopCapture))
		require.NoError(t, i.WritePolicy(content))
		i.CaptureArgs = args
		require.NoError(t, sideBySide(func() error { return i.StartWebhook(ctx) }, func() error { return i.StartCapture(ctx) }))
	}
	use(content, captureArgs)
	restore = sync.OnceFunc(func() { use(string(before), argsBefore) })
	t.Cleanup(restore)
	return restore
}

// sideBySide does all of these at once.
func sideBySide(all ...func() error) error {
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for n, do := range all {
		group.Go(func() { errs[n] = do() })
	}
	group.Wait()
	return errors.Join(errs...)
}
