package integration

import (
	"os"
	"testing"

	"nodekeep.dev/nodekeep/test/harness"
)

// nodekeep is the installation that all tests of this package share. Each test uses Node names of its own; tests that
// stop a process start it again, and no tests run in parallel.
var nodekeep *harness.Installation

func TestMain(m *testing.M) {
	os.Exit(harness.RunTests(m, harness.Options{}, func(i *harness.Installation) {
		i.TimeoutSeconds = harness.Patient
		nodekeep = i
	}))
}
