package main

import (
	"flag"
	"os"
	"testing"

	"nodekeep.dev/nodekeep/test/harness"
)

var update = flag.Bool("update", false, "write the tables of testdata anew")

// nodekeep is the installation that all tests of this package share.
var nodekeep *harness.Installation

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.RunTests(m, harness.Options{}, func(i *harness.Installation) {
		i.TimeoutSeconds = harness.Patient
		nodekeep = i
	}))
}
