package local

import (
	"os"
	"testing"
)

// faults are what is broken on a kubelet's machine. The zero value is nothing.
type faults struct {
	// Lost are ranges of addresses. What pods send there is lost on its way.
	Lost []string
	// NoImage is that the nodekeep image is not there.
	NoImage bool
}

// breaks breaks these things and no others.
func (k *kubelet) breaks(t *testing.T, broken faults) {
	t.Helper()
	k.cluster.tells(t, append([]string{"lose", "--network=" + k.network()}, broken.Lost...)...)
	if broken.NoImage == k.noImage {
		return
	}
	file := archive(built(t), binariesFolder)
	if broken.NoImage {
		file = ""
	}
	k.loads(t, image, file)
	k.noImage = broken.NoImage
}

// replaceFile writes a file that others read meanwhile: they see all of the old content, or all of the new.
func replaceFile(path string, content []byte) error {
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
