package rules

import (
	"os"
	"testing"

	"nodekeep.dev/nodekeep/test/harness"
)

var nodekeep *harness.Installation

func TestMain(m *testing.M) {
	os.Exit(harness.RunTests(m, harness.Options{}, func(i *harness.Installation) {
		i.TimeoutSeconds = harness.Patient
		nodekeep = i
	}))
}
