package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// requireLinks asserts that docs/platforms.md leads to the table of each platform.
func requireLinks(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(harness.Root(), "docs", "platforms.md"))
	require.NoError(t, err)
	for _, name := range platformNames(t) {
		assert.Contains(t, string(page), fmt.Sprintf("[%s](../test/platforms/testdata/%s.md)\n", cmp.Or(readPlatform(t, name).Title, name), name))
	}
}
