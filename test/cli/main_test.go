package cli

import (
	"flag"
	"os"
	"testing"
	"time"

	"nodekeep.dev/nodekeep/test/cluster"
	"nodekeep.dev/nodekeep/test/install"
)

var update = flag.Bool("update", false, "write the golden files anew")

// settles is how long anything may take that usually takes moments; the machine may be slow and busy.
const settles = 60 * time.Second

// nodekeep is the installation that all tests of this package share. Each test uses Node names of its own, and selects them in
// lists by the label that made them; no tests run in parallel.
var nodekeep *install.Installation

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(install.RunTests(m, cluster.Options{}, func(i *install.Installation) {
		i.TimeoutSeconds = install.Patient
		nodekeep = i
	}))
}
