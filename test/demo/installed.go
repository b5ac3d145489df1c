package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"nodekeep.dev/nodekeep/test/harness"
)

//go:embed policy.yaml
var policyFile string

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
	if err := nodekeep.WritePolicy(policyFile); err != nil {
		return nil, err
	}
	if err := showPolicy(ctx, nodekeep); err != nil {
		return nil, err
	}
	return nodekeep, nodekeep.Start(ctx)
}

// showPolicy puts the demo's policy where the operator's commands look for the policy in force. The processes have it from the
// file, as nothing here mounts ConfigMaps.
func showPolicy(ctx context.Context, nodekeep *harness.Installation) error {
	patch, err := json.Marshal(map[string]any{"data": map[string]string{"policy.yaml": policyFile}})
	if err != nil {
		return err
	}
	out, err := nodekeep.Kubectl(ctx, "-n", harness.Namespace, "patch", "configmap", "nodekeep-policy", "--type=merge", "-p", string(patch))
	if err != nil {
		return fmt.Errorf("show policy: %w\n%s", err, out)
	}
	return nil
}
