package trial

import (
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
    profiles:
    - name: workers
      nodeSelector: pool=workers
      checks:
      - {name: api, api: {}}
      attempts: {max: 2, backoff: 1s, maxBackoff: 2s}
`

func TestMain(m *testing.M) {
	options := harness.Options{ControllerManager: true}
	os.Exit(harness.RunVerifyingTests(m, options, verifying, func(i *harness.Installation) {
		i.TimeoutSeconds = harness.Patient
		nodekeep = i
	}))
}
