package recipes

import (
	"os"
	"testing"

	"nodekeep.dev/nodekeep/test/harness"
)

// nodekeep is the installation that all tests of this package share. Each test uses names and a policy of its own.
var nodekeep *harness.Installation

func TestMain(m *testing.M) {
	os.Exit(harness.RunTests(m, harness.Options{}, func(i *harness.Installation) {
		nodekeep = i
		i.TimeoutSeconds = harness.Patient
	}))
}
