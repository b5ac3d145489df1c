package faults

import (
	"os"
	"testing"

	"nodekeep.dev/nodekeep/test/cluster"
	"nodekeep.dev/nodekeep/test/install"
)

// nodekeep is the installation that all tests of this package share.
var nodekeep *install.Installation

func TestMain(m *testing.M) {
	os.Exit(install.RunTests(m, cluster.Options{}, func(i *install.Installation) { nodekeep = i }))
}
