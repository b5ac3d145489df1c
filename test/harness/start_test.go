package harness_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

func TestStart(t *testing.T) {
	t.Run("does not touch a folder that holds something else", func(t *testing.T) {
		skipWithoutControlPlane(t)
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o600))
		_, err := harness.StartCluster(t.Context(), harness.Options{Dir: dir})
		assert.ErrorContains(t, err, "neither empty nor that of an earlier cluster")
	})
	t.Run("does not detach from a temporary folder", func(t *testing.T) {
		skipWithoutControlPlane(t)
		_, err := harness.StartCluster(t.Context(), harness.Options{Detach: true})
		assert.ErrorContains(t, err, "Detach needs a Dir")
	})
	t.Run("says how to get programs that are missing", func(t *testing.T) {
		t.Setenv("KUBEBUILDER_ASSETS", t.TempDir())
		_, err := harness.StartCluster(t.Context(), harness.Options{})
		assert.ErrorContains(t, err, "make controlplane")
	})
	t.Run("ends at once and shows the log when a program ends", func(t *testing.T) {
		skipWithoutControlPlane(t)
		dir := t.TempDir()
		_, err := harness.StartCluster(t.Context(), harness.Options{Dir: dir, APIServerArgs: []string{"--no-such-flag"}})
		require.ErrorContains(t, err, "unknown flag: --no-such-flag")
		assert.ErrorContains(t, err, filepath.Join(dir, "logs"))
	})
	t.Run("leaves no folder behind when it is cancelled", func(t *testing.T) {
		skipWithoutControlPlane(t)
		t.Setenv("TMPDIR", t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		_, err := harness.StartCluster(ctx, harness.Options{})
		require.ErrorIs(t, err, context.Canceled)
		left, err := os.ReadDir(os.TempDir())
		require.NoError(t, err)
		assert.Empty(t, left)
	})
}
