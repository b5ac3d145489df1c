//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"nodekeep.dev/nodekeep/policy"
)

// installed is the cluster that the tests run on.
var installed *cluster

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run prepares the cluster, runs the tests and cleans up, after Ctrl-C too. The result is the exit code.
func run(m *testing.M) (code int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	if installed, err = connect(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(installed.home) }()
	if err := installed.prepare(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("run %s on %s\n", installed.run, installed.config.Host)
	tidied := onSignal(func() { _ = installed.tidy() })
	defer tidied()
	defer func() {
		if err := installed.tidy(); err != nil {
			fmt.Fprintln(os.Stderr, "clean up:", err)
			code = 1
		}
	}()
	go installed.heartbeats(ctx)
	return m.Run()
}

// onSignal calls tidy at Ctrl-C or SIGTERM and ends the process.
func onSignal(tidy func()) (release func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		if s, ok := <-signals; ok {
			fmt.Fprintln(os.Stderr, s, "received, cleaning up")
			tidy()
			os.Exit(1)
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
	}
}

// prepare removes what it is asked to replace and what an earlier run has left, and refuses where something else is.
func (c *cluster) prepare(ctx context.Context) error {
	if c.replace != "" {
		place, subject, ok := strings.Cut(c.replace, "/")
		if !ok {
			return fmt.Errorf("read NODEKEEP_E2E_REPLACE: %q is not namespace/release", c.replace)
		}
		if _, err := c.runHelm(ctx, "uninstall", subject, "--namespace", place, "--wait", "--timeout", patience.String()); err != nil {
			return fmt.Errorf("replace %s: %w", c.replace, err)
		}
		if err := c.admin.CoreV1().ConfigMaps(place).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "nodekeep.dev/record=true"}); err != nil {
			return fmt.Errorf("replace %s: remove records: %w", c.replace, err)
		}
	}
	ours, err := c.leftovers(ctx)
	if err != nil {
		return err
	}
	if ours {
		fmt.Println("an earlier run has left something; removing it")
		if err := c.tidy(); err != nil {
			return fmt.Errorf("remove what an earlier run has left: %w", err)
		}
	}
	return c.mayRun(ctx)
}

// leftovers says whether the namespace of an earlier run is there. One without the mark has another owner.
func (c *cluster) leftovers(ctx context.Context) (bool, error) {
	found, err := c.admin.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for namespace %s: %w", namespace, err)
	}
	if _, marked := found.Labels[mark]; !marked {
		return false, fmt.Errorf("look for namespace %s: it is there, and not made by this suite (it lacks the label %s)", namespace, mark)
	}
	return true, nil
}

// tidy takes everything of this run, and of earlier ones, off the cluster. It goes on after an error, and it may be called again.
func (c *cluster) tidy() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	var errs []error
	if ours, err := c.leftovers(ctx); err != nil || ours {
		errs = append(errs, err, c.tidyRelease(ctx))
	}
	nodes := c.admin.CoreV1().Nodes()
	if err := nodes.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: mark}); err != nil {
		errs = append(errs, fmt.Errorf("delete the suite's nodes: %w", err))
	}
	if ours, err := c.leftovers(ctx); err != nil || ours {
		errs = append(errs, err, c.tidyNamespace(ctx))
	}
	left, err := nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return errors.Join(append(errs, fmt.Errorf("look for gated nodes: %w", err))...)
	}
	for _, node := range left.Items {
		if policy.DefaultGate.Present(node.Spec.Taints) {
			errs = append(errs, fmt.Errorf("node %s is left behind the gate: kubectl taint node %s %s-", node.Name, node.Name, policy.DefaultGate))
		}
	}
	return errors.Join(errs...)
}

// tidyRelease uninstalls the release, if it is there; where the uninstall hook fails, without it, but with its work done before.
func (c *cluster) tidyRelease(ctx context.Context) error {
	_, err := c.uninstall(ctx, "--ignore-not-found")
	if err == nil {
		return nil
	}
	_, reread := c.uninstall(ctx, "--ignore-not-found", "--no-hooks")
	return errors.Join(fmt.Errorf("the uninstall hook failed: %w", err), reread)
}

func (c *cluster) tidyNamespace(ctx context.Context) error {
	namespaces := c.admin.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete namespace %s: %w", namespace, err)
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		_, err := namespaces.Get(ctx, namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		return fmt.Errorf("wait until namespace %s is deleted: %w", namespace, err)
	}
	return nil
}
