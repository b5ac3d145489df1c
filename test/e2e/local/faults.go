package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// faults are what is broken on a kubelet's machine. The zero value is nothing.
type faults struct {
	// Lost are ranges of addresses. What pods send there is lost on its way, from the next pod on.
	Lost []string `json:"lost,omitempty"`
	// NoImage is that the nodekeep image is not there.
	NoImage bool `json:"noImage,omitempty"`
}

// breaks breaks these things and no others.
func (k *kubelet) breaks(t *testing.T, broken faults) {
	t.Helper()
	require.NoError(t, replaceFile(k.faults(), harness.MustJSON(t, broken)))
}

func (k *kubelet) faults() string { return filepath.Join(k.folder, "faults.json") }

// replaceFile writes a file that others read meanwhile: they see all of the old content, or all of the new.
func replaceFile(path string, content []byte) error {
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
