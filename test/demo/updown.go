package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"nodekeep.dev/nodekeep/test/harness"
)

// bringUp starts everything detached and shows how to reach it.
func bringUp(ctx context.Context, out io.Writer, dir string) (err error) {
	if _, err := harness.AttachCluster(dir); err == nil {
		fmt.Fprintf(out, "It is running already; `make down` stops it. To reach it:\n\n%s", exports(dir))
		return nil
	}
	control, err := harness.StartCluster(ctx, harness.Options{Dir: dir, Detach: true})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, control.Stop())
		}
	}()
	if _, err := installed(ctx, out, control); err != nil {
		return err
	}
	fmt.Fprintf(out, "A control plane with nodekeep on it is running on loopback; `make down` stops it.\n"+
		"To reach it, type:\n\n%s\nThen follow docs/walkthrough.md. Logs are in %s; the policy is an object,\n"+
		"and nodekeep follows its changes within seconds: kubectl edit nodepolicy %s\n", exports(dir), filepath.Join(dir, "logs"), harness.PolicyName)
	return nil
}

func bringDown(out io.Writer, dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(out, "Nothing is running.")
		return nil
	}
	if err := harness.StopDetached(dir); err != nil {
		return err
	}
	fmt.Fprintln(out, "Stopped.")
	return os.RemoveAll(dir)
}

// exports returns the lines that make kubectl reach the control plane.
func exports(dir string) string {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		absolute = dir
	}
	return fmt.Sprintf("  export KUBECONFIG=%s\n  export PATH=%s:$PATH   # for kubectl, if you have none\n",
		filepath.Join(absolute, "admin.kubeconfig"), filepath.Dir(harness.Binary("kubectl")))
}
