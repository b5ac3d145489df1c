package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"nodekeep.dev/nodekeep/manifests"
)

// VerifyManifest is applied over the others where Nodes are verified: the chart with verify.enabled.
const VerifyManifest = "nodekeep-verify.yaml"

const verifyName = "nodekeep-verify"

// ReapplyVerify applies VerifyManifest. The NodePolicy stays as it is.
func (i *Installation) ReapplyVerify(ctx context.Context) error { return i.apply(ctx, VerifyManifest) }

// StartVerify starts the controller that verifies Nodes, as the ServiceAccount of VerifyManifest, and returns when its caches are warm.
func (i *Installation) StartVerify(ctx context.Context, args ...string) error {
	return i.run(ctx, verifyName, append([]string{"verify", "--image", "nodekeep:test"}, args...)...)
}

// StopVerify stops it politely: it leaves its Lease to the next one.
func (i *Installation) StopVerify() error { return i.stop(verifyName) }

// KillVerify kills it; the Lease runs out by itself.
func (i *Installation) KillVerify() error { return i.Cluster.Process(verifyName).Kill() }

// GrantRemoval applies what the chart grants, and forbids, where profiles use every kind of removal.
func (i *Installation) GrantRemoval(ctx context.Context) error {
	var objects []string
	for document := range strings.SplitSeq(manifests.Complete, "\n---\n") {
		if strings.Contains(document, "\n  name: nodekeep-verify-removal\n") || strings.Contains(document, "# the ledger of removals") {
			objects = append(objects, document)
		}
	}
	if len(objects) != 5 {
		return fmt.Errorf("found %d objects, not a Role, a ClusterRole, a policy, and two bindings", len(objects))
	}
	file := filepath.Join(i.Cluster.Dir(), "removal.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(objects, "\n---\n")), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	out, err := i.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", file)
	if err != nil {
		return fmt.Errorf("apply %s: %w: %s", file, err, out)
	}
	return nil
}
