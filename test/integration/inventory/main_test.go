// Package inventory tests that an inventory makes labels, and that no failure of it changes any. It has a cluster of its own: whether a snapshot is
// held depends on how many Nodes there are.
package inventory

import (
	"os"
	"testing"
	"time"

	"nodekeep.dev/nodekeep/test/harness"
)

// nodekeep is the installation of this package.
var nodekeep *harness.Installation

func TestMain(m *testing.M) {
	os.Exit(harness.RunTests(m, harness.Options{}, func(i *harness.Installation) {
		i.TimeoutSeconds = harness.Patient
		i.PolicyPoll = 100 * time.Millisecond
		nodekeep = i
	}))
}
