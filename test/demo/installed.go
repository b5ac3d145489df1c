package main

import (
	"context"
	_ "embed"

	"nodekeep.dev/nodekeep/test/cluster"
	"nodekeep.dev/nodekeep/test/install"
)

//go:embed policy.yaml
var policyFile string

// installed puts nodekeep with the demo's policy onto a control plane and starts it.
func installed(ctx context.Context, control *cluster.Cluster) (*install.Installation, error) {
	nodekeep, err := install.New(ctx, control)
	if err != nil {
		return nil, err
	}
	if err := nodekeep.WritePolicy(policyFile); err != nil {
		return nil, err
	}
	return nodekeep, nodekeep.Start(ctx)
}
