package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What the new machine has of a label or taint.
const (
	restored    = "restored"
	fromKubelet = "brought by the kubelet"
	absent      = "absent"
)

// yes marks what is kept.
const yes = "**yes**"

// row is a label or taint of the old machine.
type row struct {
	item   string
	by     []string // field managers
	kept   bool
	reason string
	tail   string
}

const tableHead = "| Label or taint | Set by | Kept | Why | On the new machine |\n|---|---|---|---|---|\n"

// tableOf has a line for each row.
func tableOf(rows []row) string {
	var table strings.Builder
	table.WriteString(tableHead)
	for _, r := range rows {
		kept := "no"
		if r.kept {
			kept = yes
		}
		table.WriteString(lineOf("`"+r.item+"`", "`"+strings.Join(r.by, "`, `")+"`", kept, strings.ReplaceAll(r.reason, "*", `\*`), r.tail))
	}
	return table.String()
}

func lineOf(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

// rewrite says what to do about a table that is not what it should be.
const rewrite = "run `go test ./test/platforms -count=1 -update`, then read the difference"

// requireTable compares a table with that of testdata.
func requireTable(t *testing.T, name, got string) {
	t.Helper()
	file := tableFile(name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, rewrite)
	assert.Equal(t, string(want), got, rewrite)
}

func tableFile(platform string) string { return filepath.Join("testdata", platform+".md") }
