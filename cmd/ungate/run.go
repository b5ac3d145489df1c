package ungate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/policy"
)

// maxPasses bounds how often all Nodes are looked at for gates that came meanwhile.
const maxPasses = 10

// Ungating is one run.
type Ungating struct {
	// Client may delete what puts the gate on, and list and patch Nodes.
	Client kubernetes.Interface
	// Kubelet may create the Node [Probe], and is asked for dry runs only.
	Kubelet kubernetes.Interface
	// Namespace of the release, where the off switch is.
	Namespace string
	Gate      policy.Gate
	// Settle is how long no dry run must have been gated until all API servers are believed to have noticed.
	Settle time.Duration
	// Patience is how long capture is given to complete Nodes before they are freed as they are.
	Patience time.Duration
	// Out is told what was done, line by line.
	Out io.Writer
}

// Probe is the Node whose dry-run CREATE shows whether new Nodes are gated. It never exists.
const Probe = "nodekeep-self-test"

// AsProbe is the config with which the API server takes the caller for the kubelet of Probe, which it may be allowed to be without being
// allowed to create any other Node.
func AsProbe(config *rest.Config) *rest.Config {
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + Probe, Groups: []string{"system:nodes"}}
	return as
}

// Run stops gating, frees all Nodes and deletes the guard policies. It ends with the first thing that cannot be done, or with ctx; the error says which Nodes are
// behind the gate still, as far as is known. What was done by then stays done.
func (u *Ungating) Run(ctx context.Context) error {
	if err := u.stop(ctx); err != nil {
		return err
	}
	stopped, err := u.untilStopped(ctx)
	if err != nil {
		return err
	}
	if err := u.awaitCapture(ctx); err != nil {
		return err
	}
	freed := 0
	for range maxPasses {
		gated, err := u.list(ctx)
		if err != nil {
			return err
		}
		if len(gated) == 0 {
			u.say("no Node is behind the gate; %s freed here", were(freed))
			return u.unguard(ctx)
		}
		n, err := u.free(ctx, gated, stopped)
		if freed += n; err != nil {
			return err
		}
	}
	return errors.New("new Nodes keep coming behind the gate: stop what puts it on (kubelets with --register-with-taints, startupTaints of a provisioner), then run this again")
}

// awaitCapture gives capture, which completes Nodes before it frees them, the time to do so.
func (u *Ungating) awaitCapture(ctx context.Context) error {
	gated, err := u.list(ctx)
	if err != nil || len(gated) == 0 || u.Patience <= 0 {
		return err
	}
	u.say("%s behind the gate; capture has %s to complete and free them", count(len(gated)), u.Patience)
	waiting, cancel := context.WithTimeout(ctx, u.Patience)
	defer cancel()
	for len(gated) > 0 && waiting.Err() == nil {
		pause(waiting, time.Second)
		gated = u.stillGated(waiting, gated)
	}
	return ctx.Err()
}

func (u *Ungating) say(format string, arguments ...any) {
	_, _ = fmt.Fprintf(u.Out, format+"\n", arguments...)
}

// were is a number of Nodes with its verb.
func were(n int) string {
	if n == 1 {
		return count(n) + " was"
	}
	return count(n) + " were"
}

// pause waits, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
