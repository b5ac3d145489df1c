package rules

import (
	"os"
	"testing"
	"time"

	"nodekeep.dev/nodekeep/test/harness"
)

var nodekeep *harness.Installation

func TestMain(m *testing.M) {
	os.Exit(harness.RunTests(m, harness.Options{}, func(i *harness.Installation) {
		i.TimeoutSeconds = harness.Patient
		i.PolicyPoll = 100 * time.Millisecond
		nodekeep = i
	}))
}
