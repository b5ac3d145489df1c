package scheduling

import (
	"context"
	"os"
	"testing"

	"nodekeep.dev/nodekeep/test/harness"
)

// nodekeep is the installation that all tests of this package share. Each test uses Nodes and a namespace of its own and
// removes its Nodes and pods, because the scheduler knows only one pool of Nodes; no tests run in parallel.
var nodekeep *harness.Installation

func TestMain(m *testing.M) {
	os.Exit(harness.RunTests(m, harness.Options{Scheduler: true}, func(i *harness.Installation) {
		nodekeep = i
		i.TimeoutSeconds = harness.Patient
		if err := i.WritePolicy(context.Background(), policyWith("deferred")); err != nil {
			panic(err)
		}
	}))
}
