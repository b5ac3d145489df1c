package harness

import "context"

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
