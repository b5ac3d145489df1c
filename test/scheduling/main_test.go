package scheduling

import (
	"os"
	"testing"

	"nodekeep.dev/nodekeep/test/cluster"
	"nodekeep.dev/nodekeep/test/install"
)

// nodekeep is the installation that all tests of this package share. Each test uses Nodes and a namespace of its own and
// removes its Nodes and pods, because the scheduler knows only one pool of Nodes; no tests run in parallel.
var nodekeep *install.Installation

func TestMain(m *testing.M) {
	os.Exit(install.RunTests(m, cluster.Options{Scheduler: true}, func(i *install.Installation) {
		nodekeep = i
		i.TimeoutSeconds = install.Patient
		if err := i.WritePolicy(policyWith("deferred")); err != nil {
			panic(err)
		}
	}))
}
