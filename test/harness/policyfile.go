package harness

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
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
		var stops, starts errgroup.Group
		stops.Go(i.StopWebhook)
		stops.Go(i.StopCapture)
		require.NoError(t, stops.Wait())
		require.NoError(t, i.WritePolicy(content))
		i.CaptureArgs = args
		starts.Go(func() error { return i.StartWebhook(ctx) })
		starts.Go(func() error { return i.StartCapture(ctx) })
		require.NoError(t, starts.Wait())
	}
	use(content, captureArgs)
	restore = sync.OnceFunc(func() { use(string(before), argsBefore) })
	t.Cleanup(restore)
	return restore
}

// SetPolicy replaces the policy file, valid or not. It waits until the running processes that follow this file have read it. Each process reads the
// file and the rules for labels that are in force at its own time. So the state of one process does not show that of another.
func (i *Installation) SetPolicy(t testing.TB, content string) {
	t.Helper()
	before, err := os.ReadFile(i.PolicyFile)
	require.NoError(t, err)
	if string(before) == content {
		return
	}
	reads := map[*Process]int{}
	for _, name := range []string{webhookName, captureName, verifyName} {
		if p := i.Cluster.Process(name); p != nil && p.running() && slices.Contains(p.command.Args, i.PolicyFile) {
			reads[p] = policyReads(t, p)
		}
	}
	require.NoError(t, i.WritePolicy(content))
	for p, count := range reads {
		require.Eventually(t, func() bool { return policyReads(t, p) > count }, Settles, 20*time.Millisecond, "%s must read its policy again", p.Name())
	}
}

// policyReads is how often a process has found its policy file changed.
func policyReads(t testing.TB, p *Process) int {
	t.Helper()
	log, err := os.ReadFile(p.LogPath())
	require.NoError(t, err)
	return strings.Count(string(log), `msg="policy reloaded"`) + strings.Count(string(log), `msg="policy file can`)
}
