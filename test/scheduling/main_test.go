package scheduling

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"nodekeep.dev/nodekeep/test/cluster"
	"nodekeep.dev/nodekeep/test/install"
)

// nodekeep is the installation that all tests of this package share. Each test uses Nodes and a namespace of its own and
// removes its Nodes and pods, because the scheduler knows only one pool of Nodes; no tests run in parallel.
var nodekeep *install.Installation

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "nodekeep-scheduling-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	control, err := cluster.Start(ctx, cluster.Options{Dir: dir, Scheduler: true})
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
	if err := installAll(ctx, control); err != nil {
		fmt.Fprintln(os.Stderr, "install nodekeep:", err)
		return 1
	}
	return m.Run()
}

func installAll(ctx context.Context, control *cluster.Cluster) (err error) {
	if nodekeep, err = install.New(ctx, control); err != nil {
		return err
	}
	if err := nodekeep.StartWebhook(ctx); err != nil {
		return err
	}
	return nodekeep.StartCapture(ctx)
}
