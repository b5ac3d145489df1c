package migration

import (
	"context"
	"fmt"
	"os"
	"testing"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

// nodekeep is the installation of this package's test.
var nodekeep *harness.Installation

func TestMain(m *testing.M) {
	options := harness.Options{Scheduler: true, ControllerManager: true}
	os.Exit(harness.RunTestsOn(m, options, func(ctx context.Context, control *harness.Cluster) error {
		installation, err := harness.Install(ctx, control)
		if err != nil {
			return fmt.Errorf("install nodekeep: %w", err)
		}
		nodekeep = installation
		nodekeep.TimeoutSeconds = harness.Patient
		nodekeep.CaptureArgs = []string{"--leader-elect=false"} // a killed leader would keep its Lease for a while
		return nodekeep.Start(ctx)
	}))
}

// usePolicy changes the policy.
func usePolicy(t *testing.T, sections string) {
	t.Helper()
	nodekeep.SetPolicy(t, policytest.Manifest(sections))
}
