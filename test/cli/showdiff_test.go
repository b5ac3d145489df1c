package cli

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDiffComparesTheRecordWithTheLiveNode(t *testing.T) {
	const name = "diff-1"
	register(t, name)
	edit(t, name, map[string]string{"dedicated": "ci", "team": "a"}, "tenant=blue:NoSchedule")
	match := run(t, "show", name, "--diff")
	assert.Equal(t, 0, match.Code)
	assert.Empty(t, match.Out)
	assert.Equal(t, "No differences.\n", match.ErrOut)

	require.NoError(t, nodekeep.StopCapture())
	defer func() { require.NoError(t, nodekeep.StartCapture(context.Background())) }()
	nodekeep.MustKubectl(t, "label", "node", name, "dedicated=batch", "new=yes", "team-", "--overwrite")
	nodekeep.MustKubectl(t, "taint", "node", name, "tenant:NoSchedule-")
	a := run(t, "show", name, "--diff")
	assert.Equal(t, 1, a.Code)
	requireGolden(t, "show-diff", a.Out)
	assert.Contains(t, a.ErrOut, "differs from the Node in 4 labels and taints")
	assert.Regexp(t, `Capture now: +no capture has led for \S+, so this is not done: `, run(t, "explain", name).RequireDone(t).Out)
	assert.Contains(t, run(t, "list", "--waiting", "stale", "--no-headers").RequireDone(t).Out, name, "and list shows it as not current")
}
