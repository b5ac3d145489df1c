package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAListOfNothingSaysWhetherAllIsWell(t *testing.T) {
	loseEverything(t)
	assert.Equal(t, "Nothing to show: no such Node and no such record in namespace nodekeep-system.\n", run(t, "list", "--waiting", "stale").ErrOut)
	register(t, "well-1")
	edit(t, "well-1", map[string]string{"dedicated": "ci"})
	assert.Equal(t, "Nothing to do: all that is kept of the Nodes is recorded and restored.\n", run(t, "list", "--waiting", "stale").ErrOut)
	register(t, "well-2")
	edit(t, "well-2", map[string]string{"dedicated": "ci"})
	remove(t, "well-2")
	assert.Equal(t, "Nothing to do: all that is kept of the Nodes is recorded and restored.\n", run(t, "list", "--waiting", "stale").ErrOut)
	assert.Equal(t, "node/well-1\n", run(t, "list", "--live", "-o", "name").RequireDone(t).Out)
	assert.Equal(t, "node/well-2\n", run(t, "list", "--gone", "-o", "name").RequireDone(t).Out)
	for _, path := range []string{"{.nothing}", "{.changes[*].nothing}"} { // as kubectl does
		assert.Empty(t, run(t, "show", "well-1", "--history", "-o", "jsonpath="+path).RequireDone(t).ErrOut, path)
	}
	loseEverything(t)
}
