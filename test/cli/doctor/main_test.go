package doctor

import (
	"flag"
	"os"
	"testing"

	"nodekeep.dev/nodekeep/test/harness"
)

var update = flag.Bool("update", false, "write the golden files anew")

// settles is how long anything may take that usually takes moments; the machine may be slow and busy.
const settles = harness.Settles

// nodekeep is the installation that all tests share; they do not run in parallel.
var nodekeep *harness.Installation

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.RunTests(m, harness.Options{}, func(i *harness.Installation) { nodekeep = i }))
}
