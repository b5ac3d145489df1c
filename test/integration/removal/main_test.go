package removal

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
	"nodekeep.dev/nodekeep/verify/remove"
)

// nodekeep is the installation that all tests of this package share. Each test uses names of its own.
var nodekeep *harness.Installation

func TestMain(m *testing.M) {
	os.Exit(harness.RunTestsOn(m, harness.Options{}, func(ctx context.Context, control *harness.Cluster) error {
		installation, err := harness.Install(ctx, control)
		if err != nil {
			return fmt.Errorf("install nodekeep: %w", err)
		}
		nodekeep = installation
		if err := nodekeep.ReapplyVerify(ctx); err != nil {
			return err
		}
		if err := nodekeep.ApplyCRDs(ctx, harness.KarpenterCRDs, harness.ClusterAPICRDs); err != nil {
			return err
		}
		if err := nodekeep.WritePolicy(ctx, removingPolicy()); err != nil {
			return err
		}
		return nodekeep.GrantRemoval(ctx, verify.RemovalKinds()...)
	}))
}

// shipped returns clients of the ServiceAccount that removes Nodes.
func shipped(t *testing.T) (kubernetes.Interface, dynamic.Interface) {
	t.Helper()
	config, err := nodekeep.Cluster.ServiceAccount(t.Context(), harness.Namespace, "nodekeep-verify")
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	objects, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return client, objects
}

func newRemover(t *testing.T) *remove.Remover {
	t.Helper()
	return remove.New(shipped(t))
}
