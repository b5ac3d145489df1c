package trial

import (
	"context"
	"fmt"
	"os"
	"testing"

	"nodekeep.dev/nodekeep/test/harness"
)

// nodekeep is the installation that all tests share.
var nodekeep *harness.Installation

// verifying is the policy of the trial.
const verifying = `apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  verify:
    start: {perSecond: 50}
    profiles:
    - name: workers
      nodeSelector: pool=workers
      checks:
      - {name: api, api: {}}
      attempts: {max: 2, backoff: 1s, maxBackoff: 2s}
`

func TestMain(m *testing.M) {
	os.Exit(harness.RunTestsOn(m, harness.Options{ControllerManager: true}, func(ctx context.Context, control *harness.Cluster) error {
		installation, err := harness.Install(ctx, control)
		if err != nil {
			return fmt.Errorf("install nodekeep: %w", err)
		}
		nodekeep = installation
		nodekeep.TimeoutSeconds = harness.Patient
		if err := nodekeep.ReapplyVerify(ctx); err != nil {
			return err
		}
		if err := nodekeep.WritePolicy(ctx, verifying); err != nil {
			return err
		}
		if err := nodekeep.Start(ctx); err != nil {
			return fmt.Errorf("start nodekeep: %w", err)
		}
		return nodekeep.StartVerify(ctx)
	}))
}
