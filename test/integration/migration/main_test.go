package migration

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
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
		nodekeep.TimeoutSeconds, nodekeep.PolicyPoll = harness.Patient, 200*time.Millisecond
		nodekeep.CaptureArgs = []string{"--leader-elect=false"} // a killed leader would keep its Lease for a while
		return nodekeep.Start(ctx)
	}))
}

// usePolicy changes the policy of the processes, and the ConfigMap that commands read.
func usePolicy(t *testing.T, sections string) {
	t.Helper()
	content := policytest.Manifest(sections)
	nodekeep.SetPolicy(t, content)
	body := harness.MustJSON(t, map[string]any{"data": map[string]string{"policy.yaml": content}})
	_, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Patch(t.Context(), "nodekeep-policy", types.MergePatchType, body, metav1.PatchOptions{})
	require.NoError(t, err)
}
