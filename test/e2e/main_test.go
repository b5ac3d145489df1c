package e2e

import (
	"os"
	"testing"

	"nodekeep.dev/nodekeep/test/cluster"
	"nodekeep.dev/nodekeep/test/install"
)

// nodekeep is the installation that all tests of this package share. Each test uses Node names of its own; tests that
// stop a process start it again, and no tests run in parallel.
var nodekeep *install.Installation

func TestMain(m *testing.M) {
	os.Exit(install.RunTests(m, cluster.Options{}, func(i *install.Installation) {
		i.TimeoutSeconds = install.Patient
		nodekeep = i
	}))
}
