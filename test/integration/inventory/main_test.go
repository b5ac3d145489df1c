// Package inventory tests that an inventory makes labels, and that no failure of it changes any. It has a cluster of its own: whether a snapshot is
// held depends on how many Nodes there are.
package inventory

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// nodekeep is the installation of this package.
var nodekeep *harness.Installation

// mounts is the folder of what a policy names below /var/run/nodekeep/, and made is how many folders of tests are in it.
var (
	mounts string
	made   atomic.Int64
)

// mounted returns a new file of a test: where it is, and how a policy names it.
func mounted(t *testing.T, name string) (path, inPolicy string) {
	t.Helper()
	folder := fmt.Sprint(made.Add(1))
	require.NoError(t, os.Mkdir(filepath.Join(mounts, folder), 0o700))
	return filepath.Join(mounts, folder, name), "/var/run/nodekeep/" + folder + "/" + name
}

func TestMain(m *testing.M) {
	os.Exit(harness.RunTests(m, harness.Options{}, func(i *harness.Installation) {
		i.TimeoutSeconds = harness.Patient
		mounts = filepath.Join(i.Cluster.Dir(), "mounts")
		if err := os.Mkdir(mounts, 0o700); err != nil {
			panic(err) // without a folder nothing here can run
		}
		i.CaptureArgs = []string{"--inventory-dir", mounts}
		nodekeep = i
	}))
}
