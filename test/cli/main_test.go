package cli

import (
	"context"
	"flag"
	"os"
	"testing"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

var update = flag.Bool("update", false, "write the golden files anew")

// settles is how long anything may take that usually takes moments; the machine may be slow and busy.
const settles = harness.Settles

// nodekeep is the installation that all tests of this package share. Each test uses Node names of its own, and selects them in
// lists by the label that made them; no tests run in parallel.
var nodekeep *harness.Installation

// hasPolicy makes a NodePolicy that says nothing, as the manifests make none.
func hasPolicy() {
	if err := nodekeep.WritePolicy(context.Background(), policytest.Head); err != nil {
		panic(err)
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.RunTests(m, harness.Options{}, func(i *harness.Installation) {
		i.TimeoutSeconds = harness.Patient
		nodekeep = i
		hasPolicy()
	}))
}
