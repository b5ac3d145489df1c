package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/capture/gc"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

var (
	// errNo ends a command whose plan nobody has agreed to.
	errNo = errors.New("nothing was changed: the answer was not yes; --yes says it beforehand")
	// errOvertaken ends a command whose plan is not right any more.
	errOvertaken = errors.New("nothing was changed: the Node or its record has changed since the plan was made; run it again to see how")
	// errBusy ends a command whose plan is right, and that never came in time.
	errBusy = errors.New("nothing was changed: other clients keep changing the Node or its record; run it again")
)

const (
	// tries is how often a change is tried again that was overtaken by another, as long as the plan stays the same.
	tries = 20
	// A step that changes something may take stepTimeout and, in a command that is interrupted meanwhile, another afterInterrupt: it
	// is known then whether it was done.
	stepTimeout    = 30 * time.Second
	afterInterrupt = 10 * time.Second
)

// change is what a command changes: it reads and plans, shows the plan and asks, and does it on exactly the state that was read.
type change[P any] struct {
	read  func(context.Context) (*P, error)     // the plan; nil: there is nothing to do
	agree func(context.Context, *P) error       // shows the plan and asks; nil: the command asks nothing
	same  func(agreed, again *P) bool           // whether the plan is still the one that was agreed to; nil: any plan is
	do    func(ctx context.Context, p *P) error // one attempt, and the report
}

func (ch change[P]) run(ctx context.Context) error {
	plan, err := ch.read(ctx)
	if err != nil || plan == nil {
		return err
	}
	if ch.agree != nil {
		if err := ch.agree(ctx, plan); err != nil {
			return err
		}
	}
	agreed := plan
	for range tries {
		step, cancel := finish(ctx)
		err := ch.do(step, plan)
		cancel()
		if !overtaken(err) {
			return err
		}
		if plan, err = ch.read(ctx); err != nil || plan == nil {
			return err
		}
		if ch.same != nil && !ch.same(agreed, plan) {
			return errOvertaken
		}
	}
	return errBusy
}

// finish is for a step that changes something: a command that is interrupted waits for it, too.
func finish(ctx context.Context) (context.Context, context.CancelFunc) {
	step, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(afterInterrupt, cancel) })
	return step, func() { stop(); cancel() }
}

// overtaken reports whether a write failed because there is a newer state of its object (409), another object of its name (422: its
// uid cannot be changed), or none.
func overtaken(err error) bool {
	if errors.Is(err, store.ErrConflict) || apierrors.IsConflict(err) || gc.SaysGone(err) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldValueInvalid && cause.Field == "metadata.uid" {
			return true
		}
	}
	return false
}

// agree shows a plan and asks, unless --yes was given.
func (o *options) agree(ctx context.Context, c *cluster, plan view.Document, question string) error {
	if o.yes {
		return nil
	}
	if err := (&output{format: formatTable}).document(c.ErrOut, plan); err != nil {
		return err
	}
	return o.ask(ctx, c, question)
}

// ask asks on stderr and reads one line of stdin. Any answer but "y" or "yes", the end of stdin included, means no: errNo.
func (o *options) ask(ctx context.Context, c *cluster, question string) error {
	if o.yes {
		return nil
	}
	if _, err := fmt.Fprintf(c.ErrOut, "%s [y/N] ", question); err != nil {
		return err
	}
	answers := make(chan string, 1)
	go func() { // a user at a terminal can still press Ctrl-C
		line, _ := bufio.NewReader(c.In).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return exitError{exitInterrupted, errors.New("\nnothing was changed: interrupted before an answer")}
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
		return errNo
	}
}

// put writes a record over the version that was read, or a new one where that is empty.
func (c *cluster) put(ctx context.Context, r record.Record, version string) error {
	verb := "patch"
	if version == "" {
		verb = "create"
	}
	_, err := c.records.Put(ctx, r, version)
	return c.failedWrite(c.toRecords(verb), "the record of Node "+r.Node, err)
}

// patchNode makes a change on exactly the state of a Node that was read.
func (c *cluster) patchNode(ctx context.Context, node *observe.Node, change capture.Change, gate policy.Gate, options metav1.PatchOptions) error {
	err := patchNode(ctx, c.client, node, change, gate, options)
	return c.failedWrite(c.toNodes("patch"), "Node "+node.Name, err)
}

func patchNode(ctx context.Context, client kubernetes.Interface, node *observe.Node, change capture.Change, gate policy.Gate, options metav1.PatchOptions) error {
	body, err := capture.PatchFor(node, change, gate)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, body, options)
	return err
}
