package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestListShowsEveryNodeAndEveryRecordOnce(t *testing.T) {
	const test = "list"
	register(t, "list-present")
	edit(t, "list-present", map[string]string{testDomain: test, "dedicated": "ci", "node-role.kubernetes.io/worker": ""}, "tenant=blue:NoSchedule")
	register(t, "list-gone")
	edit(t, "list-gone", map[string]string{testDomain: test})
	remove(t, "list-gone")

	requireGolden(t, "list", run(t, "list", "-l", testDomain+"="+test).RequireDone(t).Out)
	requireGolden(t, "list-wide", run(t, "list", "-o", "wide", "-l", testDomain+"="+test).RequireDone(t).Out)
	gone := strings.Fields(run(t, "list", "--gone", "--no-headers", "-l", testDomain+"="+test).RequireDone(t).Out)
	assert.Equal(t, []string{"list-gone", "Gone"}, gone[:2])
	assert.Len(t, gone, 8, "one line")

	assert.Equal(t, "node/list-gone\nnode/list-present\n", run(t, "list", "-o", "name", "-l", testDomain+"="+test).RequireDone(t).Out)
	var list struct {
		APIVersion, Kind string
		Items            []struct {
			Name, Status   string
			Labels, Taints int
			Current, Gated bool
		}
	}
	answerJSON(t, &list, "list", "-l", testDomain+"="+test)
	assert.Equal(t, "nodekeep.dev/v1alpha1", list.APIVersion)
	assert.Equal(t, "NodeSummaryList", list.Kind)
	require.Len(t, list.Items, 2)
	assert.Equal(t, 3, list.Items[1].Labels)
	assert.Equal(t, 1, list.Items[1].Taints)
	assert.True(t, list.Items[1].Current)
}

func TestListShowsWhatWaitsForAnOperatorAndWhatHasNoRecord(t *testing.T) {
	loseEverything(t)
	goneFor(t, "odd-spoiled", year)
	spoil(t, "odd-spoiled")
	quarantined(t, "odd-undecided")
	nodekeep.WithoutCapture(t, func() {
		register(t, "odd-unrecorded")
		nodekeep.MustKubectl(t, "label", "node", "odd-unrecorded", "dedicated=ci")
		requireGolden(t, "list-odd", run(t, "list", "-o", "wide").RequireDone(t).Out)
		stale := run(t, "list", "--waiting", "stale", "-o", "name").RequireDone(t).Out
		assert.Contains(t, stale, "node/odd-unrecorded\n", "capture has still to record it")
	})
	show := run(t, "show", "odd-spoiled")
	assert.NotEqual(t, 0, show.Code)
	assert.Contains(t, show.ErrOut, "odd-spoiled")
	requireGolden(t, "show-undecided", run(t, "show", "odd-undecided").RequireDone(t).Out)
}
