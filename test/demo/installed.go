package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"time"

	"nodekeep.dev/nodekeep/test/harness"
)

//go:embed policy.yaml
var manifest string

// installed puts nodekeep with the demo's policy onto a control plane and starts it.
func installed(ctx context.Context, out io.Writer, control *harness.Cluster) (*harness.Installation, error) {
	fmt.Fprint(out, "Building nodekeep ... ")
	began := time.Now()
	nodekeep, err := harness.Install(ctx, control)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "built and installed after %s\n", time.Since(began).Round(100*time.Millisecond))
	// Here the processes run outside the cluster. Deployments without Pods would show as errors in doctor.
	if out, err := nodekeep.Kubectl(ctx, "-n", harness.Namespace, "delete", "deployment", "--all"); err != nil {
		return nil, fmt.Errorf("delete Deployments: %w\n%s", err, out)
	}
	if err := nodekeep.WritePolicy(ctx, manifest); err != nil {
		return nil, err
	}
	return nodekeep, nodekeep.Start(ctx)
}
