package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
)

var annotationsPolicy = policytest.Manifest(`annotations: ["metal3.io/BareMetalHost"]
`)

func TestCommandsShowCompareRollBackAndForgetAnnotationsAsTheyDoLabels(t *testing.T) {
	const name, host, item = "annotated-1", "metal3.io/BareMetalHost", "@metal3.io/BareMetalHost"
	defer withPolicy(t, annotationsPolicy)()
	recorded := func(value string) {
		t.Helper()
		harness.Eventually(t, func() bool {
			found, _ := nodekeep.Record(t, name)
			return record.SplitAnnotations(found.Items())[host] == value
		}, settles, 20*time.Millisecond)
	}
	register(t, name)
	nodekeep.MustKubectl(t, "annotate", "node", name, host+"=metal3/host-7", "plain=1")
	recorded("metal3/host-7")
	nodekeep.MustKubectl(t, "annotate", "node", name, host+"=metal3/host-8", "--overwrite")
	recorded("metal3/host-8")
	requireGolden(t, "annotations-show", run(t, "show", name).RequireDone(t).Out)
	requireGolden(t, "annotations-history", run(t, "show", name, "--history").RequireDone(t).Out)
	requireGolden(t, "annotations-explain", run(t, "explain", name).RequireDone(t).Out)

	nodekeep.WithoutCapture(t, func() {
		nodekeep.MustKubectl(t, "annotate", "node", name, host+"-")
		diff := run(t, "show", name, "--diff")
		assert.Equal(t, 1, diff.Code)
		requireGolden(t, "annotations-diff", diff.Out)
		nodekeep.MustKubectl(t, "annotate", "node", name, host+"=metal3/host-8")
	})
	returned := run(t, "rollback", name, "--to", "0", "--yes")
	require.Equal(t, 0, returned.Code, returned.ErrOut)
	requireGolden(t, "annotations-rollback", returned.Out+returned.ErrOut)
	assert.Equal(t, "metal3/host-7", nodekeep.Node(t, name).Annotations[host])
	recorded("metal3/host-7")
	remove(t, name)
	requireGolden(t, "annotations-forget", run(t, "forget", name, item, "--yes").RequireDone(t).Out)
	recorded("")
}
