package harness

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// WithoutWebhook does something while the webhook is down.
func (i *Installation) WithoutWebhook(t testing.TB, do func()) {
	t.Helper()
	require.NoError(t, i.StopWebhook())
	defer func() { require.NoError(t, i.StartWebhook(context.WithoutCancel(t.Context()))) }()
	do()
}

// WithoutCapture does something while capture is down.
func (i *Installation) WithoutCapture(t testing.TB, do func()) {
	t.Helper()
	require.NoError(t, i.StopCapture())
	defer func() { require.NoError(t, i.StartCapture(context.WithoutCancel(t.Context()))) }()
	do()
}

// WithoutBoth does something while both processes are down.
func (i *Installation) WithoutBoth(t testing.TB, do func()) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	require.NoError(t, sideBySide(i.StopWebhook, i.StopCapture))
	defer func() {
		require.NoError(t, sideBySide(func() error { return i.StartWebhook(ctx) }, func() error { return i.StartCapture(ctx) }))
	}()
	do()
}

// UsePolicy restarts both processes with another policy, and capture with these arguments behind its own. They are restarted as
// they were by restore, or at the end of the test.
func (i *Installation) UsePolicy(t testing.TB, content string, captureArgs ...string) (restore func()) {
	t.Helper()
	before, err := os.ReadFile(i.PolicyFile)
	require.NoError(t, err)
	argsBefore := i.CaptureArgs
	use := func(content string, args []string) {
		t.Helper()
		i.WithoutBoth(t, func() {
			require.NoError(t, i.WritePolicy(content))
			i.CaptureArgs = args
		})
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
