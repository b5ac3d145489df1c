package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestShowPrintsTheRecordAsText(t *testing.T) {
	register(t, "show-1")
	edit(t, "show-1", map[string]string{"dedicated": "ci", "node-role.kubernetes.io/worker": ""}, "tenant=blue:NoSchedule")

	requireGolden(t, "show", run(t, "show", "show-1").RequireDone(t).Out)
	assert.Equal(t, "ci", run(t, "show", "node/show-1", "-o", "jsonpath={.record.labels.dedicated}").RequireDone(t).Out)

	remove(t, "show-1")
	requireGolden(t, "show-gone", run(t, "show", "show-1").RequireDone(t).Out)
}
