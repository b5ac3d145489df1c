package cli

import (
	"context"
	"fmt"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/nodepolicy"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
)

// session is what a command works with: a cluster as the caller may see it, the streams, and what decisions depend on.
type session struct {
	*cluster.Cluster
	genericiooptions.IOStreams

	inForce nodepolicy.InForce // the policy of the cluster, of a command that goes by it

	inputs plan.Inputs // of a command that decides
	gate   policy.Gate // of a command that decides or knows the gate
}

// say writes a message to stderr.
func (c *session) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.ErrOut, format+"\n", args...)
}

// sayUnknown writes to stderr what is not known because of an error, if there is one.
func (c *session) sayUnknown(subject string, err error) {
	if err != nil {
		c.say("%s is not known: %v", subject, err)
	}
}

// printResult writes a line to stdout: what a command did.
func (c *session) printResult(format string, args ...any) error {
	_, err := fmt.Fprintf(c.Out, format+"\n", args...)
	return err
}

// usePolicy has a command decide by a policy.
func (c *session) usePolicy(ctx context.Context, p policy.Policy) {
	c.inputs, c.gate = c.PlanInputs(ctx, p), p.Gate()
}
