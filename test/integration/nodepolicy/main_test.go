package nodepolicy

import (
	"context"
	"fmt"
	"os"
	"testing"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

// nodekeep is the installation that all tests of this package share. Each test uses Node names of its own, and leaves the policy as it was.
var nodekeep *harness.Installation

func TestMain(m *testing.M) {
	os.Exit(harness.RunTestsOn(m, harness.Options{}, func(ctx context.Context, control *harness.Cluster) (err error) {
		if nodekeep, err = harness.Install(ctx, control); err != nil {
			return fmt.Errorf("install nodekeep: %w", err)
		}
		nodekeep.TimeoutSeconds = harness.Patient
		nodekeep.CaptureArgs = []string{"--leader-elect=false"} // a restart waits for no Lease
		if err := nodekeep.ReapplyVerify(ctx); err != nil {
			return err
		}
		if err := nodekeep.Start(ctx); err != nil {
			return fmt.Errorf("start nodekeep: %w", err)
		}
		return nodekeep.StartVerify(ctx)
	}))
}

// withSections has a policy of these sections in force until the test ends.
func withSections(t *testing.T, sections string) {
	t.Helper()
	head := nodekeep.Policy(t)
	t.Cleanup(func() { nodekeep.SetPolicy(t, head) })
	nodekeep.SetPolicy(t, policytest.Manifest(sections))
}

// goodIs waits until webhook and capture say whether the policy in force is what the NodePolicy says.
func goodIs(t *testing.T, good float64) {
	t.Helper()
	for _, process := range []string{"webhook", "capture"} {
		harness.Eventually(t, func() bool { return harness.Series(t, nodekeep.MetricsURL(process), "nodekeep_policy_good") == good }, harness.Settles, poll,
			"nodekeep_policy_good of %s must become %v", process, good)
	}
}
