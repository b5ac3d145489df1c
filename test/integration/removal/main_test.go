package removal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/manifests"
	"nodekeep.dev/nodekeep/test/harness"
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
		return grantRemoval()
	}))
}

// grantRemoval applies what the chart grants, and forbids, where profiles use every kind of removal.
func grantRemoval() error {
	var objects []string
	for document := range strings.SplitSeq(manifests.Complete, "\n---\n") {
		if strings.Contains(document, "\n  name: nodekeep-verify-removal\n") || strings.Contains(document, "# the ledger of removals") {
			objects = append(objects, document)
		}
	}
	if len(objects) != 5 {
		return fmt.Errorf("found %d objects, not a Role, a ClusterRole, a policy, and two bindings", len(objects))
	}
	file := filepath.Join(nodekeep.Cluster.Dir(), "removal.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(objects, "\n---\n")), 0o600); err != nil {
		return err
	}
	out, err := nodekeep.Kubectl(context.Background(), "apply", "--server-side", "--force-conflicts", "-f", file)
	if err != nil {
		return fmt.Errorf("apply %s: %w: %s", file, err, out)
	}
	return nil
}

// shipped are clients of the ServiceAccount that removes Nodes.
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
