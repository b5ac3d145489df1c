package cli

import (
	"flag"
	"os"
	"testing"

	"nodekeep.dev/nodekeep/test/harness"
)

var update = flag.Bool("update", false, "write the golden files anew")

// settles is how long anything may take that usually takes moments; the machine may be slow and busy.
const settles = harness.Settles

// nodekeep is the installation that all tests of this package share. Each test uses Node names of its own, and selects them in
// lists by the label that made them; no tests run in parallel.
var nodekeep *harness.Installation

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.RunTests(m, harness.Options{}, func(i *harness.Installation) {
		i.TimeoutSeconds = harness.Patient
		nodekeep = i
	}))
}
