package cli

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// manyGone puts the records of that many Nodes that have been gone for long.
func manyGone(t *testing.T, prefix string, n int) {
	t.Helper()
	keys := []string{"dedicated", "rack", "row", "example.com/pool", "example.com/team", "example.com/tier", "accelerator", "disktype", worker, "example.com/owner"}
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error {
			labels := map[string]string{}
			for _, key := range keys {
				labels[key] = "v" + strconv.Itoa(i%17)
			}
			r := record.New(prefix+"-"+strconv.Itoa(i), record.Object{UID: "1", Version: 1}, labels)
			r.DeletedAt = time.Now().UTC().Add(-3 * year)
			_, err := records(t).Put(t.Context(), r, "")
			return err
		})
	}
	require.NoError(t, group.Wait())
}

func TestManyRecordsAreListedAndPrunedPageByPage(t *testing.T) {
	loseEverything(t)
	const plural = 1200 // more than two pages
	nodekeep.WithoutCapture(t, func() {
		manyGone(t, "many", plural)
		names := strings.Fields(run(t, "list", "-o", "name").RequireDone(t).Out)
		assert.Len(t, slices.Compact(slices.Sorted(slices.Values(names))), plural)
		assert.Equal(t, "1200 records removed\n", run(t, "forget", "--older-than=720h", "--yes").RequireDone(t).Out)
	})
	assert.Empty(t, recordsAll(t))
}

func TestCtrlCEndsAPruneWithAWordOnWhatWasDone(t *testing.T) {
	loseEverything(t)
	const all = 2000
	nodekeep.WithoutCapture(t, func() {
		manyGone(t, "interrupted", all)
		command := exec.Command(nodekeep.Binary(), "forget", "--older-than=720h", "--yes")
		command.Env = nodekeep.Environment("")
		a := interrupted(t, command, func(string) bool { return recordOf(t, "interrupted-0") == nil || recordOf(t, "interrupted-1") == nil })
		assert.Equal(t, 130, a.Code, a.ErrOut)
		assert.Empty(t, a.Out)
		require.Regexp(t, `^interrupted: \d+ of 2000 records were removed; run it again for the rest\n$`, a.ErrOut)
		done, err := strconv.Atoi(strings.Fields(a.ErrOut)[1])
		require.NoError(t, err)
		assert.Len(t, recordsAll(t), all-done, "what it says was done is what is done")
	})
	loseEverything(t)
}

// recordsAll lists the records page by page.
func recordsAll(t *testing.T) (all []store.Listed) {
	t.Helper()
	options := metav1.ListOptions{Limit: 500}
	for {
		page, meta, err := records(t).List(t.Context(), options)
		require.NoError(t, err)
		all = append(all, page...)
		if options.Continue = meta.Continue; options.Continue == "" {
			return all
		}
	}
}
