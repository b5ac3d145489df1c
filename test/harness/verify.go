package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nodekeep.dev/nodekeep/manifests"
	"nodekeep.dev/nodekeep/verify"
)

// VerifyManifest is applied over the others where Nodes are verified: the chart with verify.enabled.
const VerifyManifest = "nodekeep-verify.yaml"

const (
	verifyName  = "nodekeep-verify"
	removalName = "nodekeep-verify-removal"
)

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

// removalRules are what only one kind of removal needs, as complete.yaml has it.
var removalRules = map[verify.RemovalKind]string{
	verify.RemoveNode:      "- apiGroups: [\"\"]\n  resources: [nodes]\n  verbs: [delete]\n",
	verify.RemoveNodeClaim: "- apiGroups: [karpenter.sh]\n  resources: [nodeclaims]\n  verbs: [get, delete]\n",
	verify.RemoveMachine:   "- apiGroups: [cluster.x-k8s.io]\n  resources: [machines]\n  verbs: [get, patch]\n",
}

// GrantRemoval applies what the chart grants, and forbids, where profiles use these kinds of removal and no other.
func (i *Installation) GrantRemoval(ctx context.Context, kinds ...verify.RemovalKind) error {
	var objects []string
	for document := range strings.SplitSeq(manifests.Complete, "\n---\n") {
		if strings.Contains(document, "\n  name: "+removalName+"\n") || strings.Contains(document, "# the ledger of removals") {
			objects = append(objects, document)
		}
	}
	if len(objects) != 5 {
		return fmt.Errorf("found %d objects, not a Role, a ClusterRole, a policy, and two bindings", len(objects))
	}
	all := strings.Join(objects, "\n---\n")
	for kind, rule := range removalRules {
		if strings.Count(all, rule) != 1 {
			return fmt.Errorf("find the rule of removals of kind %q: complete.yaml has it %d times", kind, strings.Count(all, rule))
		}
		if !slices.Contains(kinds, kind) {
			all = strings.Replace(all, rule, "", 1)
		}
	}
	file := filepath.Join(i.Cluster.Dir(), "removal.yaml")
	if err := os.WriteFile(file, []byte(all), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	out, err := i.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", file)
	if err != nil {
		return fmt.Errorf("apply %s: %w: %s", file, err, out)
	}
	return nil
}

// RevokeRemoval removes what GrantRemoval has granted.
func (i *Installation) RevokeRemoval(ctx context.Context) error {
	kinds := "clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding"
	if out, err := i.Kubectl(ctx, "delete", kinds, removalName, "--ignore-not-found"); err != nil {
		return fmt.Errorf("delete %s: %w: %s", removalName, err, out)
	}
	return i.ReapplyVerify(ctx)
}
