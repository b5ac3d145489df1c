package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// goneFor puts the record of a Node that has been gone for so long.
func goneFor(t *testing.T, node string, long time.Duration, change ...func(*record.Record)) {
	t.Helper()
	r := record.New(node, record.Object{UID: "00000000-0000-0000-0000-000000000000", Version: 1}, map[string]string{"dedicated": "ci", "tenant:NoSchedule": "blue"})
	r.DeletedAt = time.Now().UTC().Truncate(time.Second).Add(-long)
	for _, c := range change {
		c(&r)
	}
	_, err := records(t).Put(t.Context(), r, "")
	require.NoError(t, err)
	deletedAtEnd(t, "configmap", store.Name(node), "-n", harness.Namespace)
}

const year = 365 * 24 * time.Hour

func TestPruneRemovesRecordsOfNodesThatHaveBeenGoneForLongAndNoOthers(t *testing.T) {
	goneFor(t, "prune-old", 3*year)
	goneFor(t, "prune-older", 4*year)
	goneFor(t, "prune-recent", 2*year)
	nodekeep.Quarantine(t)
	goneFor(t, "prune-undecided", 4*year, func(r *record.Record) { old := *r; r.Quarantined = &old })
	register(t, "prune-live") // capture is down in a moment, and the record says that it is deleted
	edit(t, "prune-live", map[string]string{"dedicated": "ci"})
	nodekeep.WithoutCapture(t, func() {
		changeRecord(t, "prune-live", func(r *record.Record) { r.DeletedAt = time.Now().UTC().Add(-4 * year) })

		const threshold = "--older-than=22000h" // some 2.5 years
		a := run(t, "forget", threshold, "--dry-run")
		require.Equal(t, 0, a.Code, a.ErrOut)
		table, _, _ := strings.Cut(a.Out, "\n\n")
		requireGolden(t, "forget-old-dry-run", table+"\n")
		assert.Contains(t, a.Out, "3 to be removed; 1 stay until an operator decides")
		require.NotNil(t, recordOf(t, "prune-older"))

		a = answering(t, "", "forget", threshold)
		assert.Equal(t, 3, a.Code)
		assert.Contains(t, a.ErrOut, "Remove 3 of ")
		require.NotNil(t, recordOf(t, "prune-older"))

		assert.Equal(t, "1 record removed\n", run(t, "forget", threshold, "--at-most=1", "--yes").RequireDone(t).Out)
		assert.Equal(t, "1 record removed; 1 kept, which have changed or whose Nodes are back\n", run(t, "forget", threshold, "--yes").RequireDone(t).Out)
	})
	for name, present := range map[string]bool{"prune-old": false, "prune-older": false, "prune-recent": true, "prune-undecided": true, "prune-live": true} {
		assert.Equal(t, present, recordOf(t, name) != nil, name)
	}
}

func TestALongPlanOfPruneIsShownInPart(t *testing.T) {
	for n := range 25 {
		goneFor(t, fmt.Sprintf("prune-many-%02d", n), 10*year+time.Duration(n)*time.Hour)
	}
	a := answering(t, "y\n", "forget", "--older-than=87000h")
	require.Equal(t, 0, a.Code, a.ErrOut)
	assert.Contains(t, a.ErrOut, "5 more are not shown; --dry-run shows all")
	assert.Equal(t, "25 records removed\n", a.Out)
}
