package report

import (
	"flag"
	"os"
	"testing"

	"nodekeep.dev/nodekeep/test/harness"
)

var screenshots = flag.Bool("screenshots", false, "write docs/images/report-light.png and report-dark.png anew")

var nodekeep *harness.Installation

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.RunTests(m, harness.Options{}, func(i *harness.Installation) {
		i.TimeoutSeconds = harness.Patient
		nodekeep = i
	}))
}
