package harness

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// RunTests runs the tests of a package on a control plane of their own with both processes of nodekeep running. It calls use with the installation
// before the processes start, so that use can write another policy. If a test fails, the logs are kept. The result is the exit code.
func RunTests(m *testing.M, options Options, use func(*Installation)) (code int) {
	return RunTestsOn(m, options, func(ctx context.Context, control *Cluster) error {
		installation, err := Install(ctx, control)
		if err != nil {
			return fmt.Errorf("install nodekeep: %w", err)
		}
		use(installation)
		if err := installation.Start(ctx); err != nil {
			return fmt.Errorf("start nodekeep: %w", err)
		}
		return nil
	})
}

// RunVerifyingTests is [RunTests] with the controller that verifies Nodes running, too, under a policy.
func RunVerifyingTests(m *testing.M, options Options, policy string, use func(*Installation)) (code int) {
	return RunTestsOn(m, options, func(ctx context.Context, control *Cluster) error {
		installation, err := Install(ctx, control)
		if err != nil {
			return fmt.Errorf("install nodekeep: %w", err)
		}
		use(installation)
		if err := installation.ReapplyVerify(ctx); err != nil {
			return err
		}
		if err := installation.WritePolicy(ctx, policy); err != nil {
			return err
		}
		if err := installation.Start(ctx); err != nil {
			return fmt.Errorf("start nodekeep: %w", err)
		}
		return installation.StartVerify(ctx)
	})
}

// RunTestsOn runs the tests of a package on a control plane of their own, which prepare sets up.
func RunTestsOn(m *testing.M, options Options, prepare func(context.Context, *Cluster) error) (code int) {
	dir, err := os.MkdirTemp("", "nodekeep-tests-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	options.Dir = dir
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // the first build of all is among it
	defer cancel()
	control, err := StartCluster(ctx, options)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start control plane:", err)
		return 1
	}
	defer func() {
		if err := control.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop control plane:", err)
			code = 1
		}
		if code != 0 {
			fmt.Fprintln(os.Stderr, "logs are kept in", dir)
			return
		}
		_ = os.RemoveAll(dir)
	}()
	if err := prepare(ctx, control); err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		return 1
	}
	return m.Run()
}
