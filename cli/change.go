package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

var (
	// errNotConfirmed ends a command whose plan nobody has agreed to.
	errNotConfirmed = errors.New("nothing was changed: the answer was not yes; in a script, add --yes")
	// errChangedMeanwhile ends a command whose plan is not right any more.
	errChangedMeanwhile = errors.New("nothing was changed: the Node or its record has changed since the plan was made; run it again to see how")
	// errTooManyConflicts ends a command that met a conflict at each try.
	errTooManyConflicts = errors.New("nothing was changed: other clients keep changing the Node or its record; run it again")
)

const (
	// maxConflictRetries is how often a change is retried after a conflict, as long as the plan stays the same.
	maxConflictRetries = 20
	// A step that changes something may take stepTimeout. If the command is interrupted during the step, the step may take interruptGrace more, so
	// that its result is known.
	stepTimeout    = 30 * time.Second
	interruptGrace = 10 * time.Second
)

// proposal is a change that a command would make, by one state of the cluster.
type proposal struct {
	document    view.Document                   // what is shown
	summary     string                          // what it means, in sentences
	question    string                          // asked after both
	long        bool                            // the tables of the document may have many rows: before a question, the first ones are enough
	fingerprint any                             // what the answer depends on: after a conflict, a plan with another fingerprint is not carried out; nil: any is
	apply       func(ctx context.Context) error // makes the change on the state that was read, and prints the result
}

// change reads, makes a plan, shows it, asks and carries it out. Without confirm (nil) it does not ask. read returns nil if there is nothing to do.
// After a conflict with another client, change plans again.
func change(ctx context.Context, read func(context.Context) (*proposal, error), confirm func(context.Context, *proposal) error) error {
	first, err := read(ctx)
	if err != nil || first == nil {
		return err
	}
	if confirm != nil {
		if err := confirm(ctx, first); err != nil {
			return err
		}
	}
	current := first
	for range maxConflictRetries {
		step, cancel := withoutInterrupt(ctx)
		err := current.apply(step)
		cancel()
		if !isConflict(err) {
			return err
		}
		if current, err = read(ctx); err != nil || current == nil {
			return err
		}
		if !reflect.DeepEqual(first.fingerprint, current.fingerprint) {
			return errChangedMeanwhile
		}
	}
	return errTooManyConflicts
}

// change is [change] with the plan's own question. A dry run shows the plan and ends.
func (o *options) change(ctx context.Context, c *session, read func(context.Context) (*proposal, error)) error {
	if o.dryRun {
		p, err := read(ctx)
		if err != nil || p == nil {
			return err
		}
		_, err = o.confirm(ctx, c, p)
		return err
	}
	return change(ctx, read, func(ctx context.Context, p *proposal) error {
		_, err := o.confirm(ctx, c, p)
		return err
	})
}

// confirm shows a plan and asks whether it is to be carried out. With --yes it does neither. A dry run shows the whole plan on stdout and ends there: proceed is
// false.
func (o *options) confirm(ctx context.Context, c *session, p *proposal) (proceed bool, err error) {
	if o.dryRun {
		if err := p.show(c.Out, p.document); err != nil {
			return false, err
		}
		c.say(nothingChanged)
		return false, nil
	}
	if o.yes {
		return true, nil
	}
	document, question := p.document, p.question
	if p.long {
		var omitted int
		if document, omitted = document.First(maxShownRows); omitted > 0 {
			question = fmt.Sprintf("%d more are not shown; --dry-run shows all.\n%s", omitted, question)
		}
	}
	if err := p.show(c.ErrOut, document); err != nil {
		return false, err
	}
	if p.summary == "" && !document.Empty() {
		question = "\n" + question
	}
	return true, o.ask(ctx, c, question)
}

// show writes a plan, of which document is what is shown.
func (p *proposal) show(w io.Writer, document view.Document) error {
	if err := (&output{format: formatTable}).writeDocument(w, document); err != nil || p.summary == "" {
		return err
	}
	if !document.Empty() {
		_, _ = fmt.Fprintln(w) // the next line returns the error
	}
	_, err := fmt.Fprintln(w, p.summary)
	return err
}

// nothingChanged ends each dry run.
const nothingChanged = "Nothing was changed (dry run)."

// withoutInterrupt is for a step that changes something: a command that is interrupted waits for it, too.
func withoutInterrupt(ctx context.Context) (context.Context, context.CancelFunc) {
	step, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(interruptGrace, cancel) })
	return step, func() { stop(); cancel() }
}

// maxParallelChanges is how many Nodes or records are changed at the same time.
const maxParallelChanges = 16

// changeInParallel changes items, a few at a time, and reports what became of each. After an error or Ctrl-C it starts no more, and finishes those that it
// has started. Reports come one after the other.
func changeInParallel[T, R any](ctx context.Context, items []T, fn func(T) (R, error), report func(R, error)) error {
	var mu sync.Mutex
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(maxParallelChanges)
	for _, item := range items {
		group.Go(func() error {
			if working.Err() != nil {
				return nil
			}
			result, err := fn(item)
			mu.Lock()
			defer mu.Unlock()
			report(result, err)
			return err
		})
	}
	return group.Wait()
}

// isConflict reports whether a write failed because its object has changed or is deleted.
func isConflict(err error) bool {
	return errors.Is(err, store.ErrConflict) || store.IsGone(err) || store.IsConflict(err)
}

// ask asks on stderr and reads one line of stdin. Any answer but "y" or "yes", the end of stdin included, means no: errNotConfirmed.
func (o *options) ask(ctx context.Context, c *session, question string) error {
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
		return errNotConfirmed
	}
}

// writeRecord writes a record over the version that was read, or a new one where that is empty.
func (c *session) writeRecord(ctx context.Context, r record.Record, version string) error {
	verb := "patch"
	if version == "" {
		verb = "create"
	}
	_, err := c.Records.Put(ctx, r, version)
	return c.explainWriteError(c.RecordsRight(verb), "the record of Node "+r.Node, err)
}

// patchNode makes a change on exactly the state of a Node that was read.
func (c *session) patchNode(ctx context.Context, node *observe.Node, change plan.Plan, options metav1.PatchOptions) error {
	body, err := capture.PatchFor(node, change)
	if err != nil {
		return err
	}
	_, err = c.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, body, options)
	return c.explainWriteError(c.NodesRight("patch"), "Node "+node.Name, err)
}

// explainWriteError is [cluster.Cluster.ExplainError] for a call that changes something. Without an answer from the API server it is not known whether the change was made.
func (c *session) explainWriteError(right doctor.Right, subject string, err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil || errors.As(err, &status):
		return c.ExplainError(right, err)
	case errors.Is(err, context.Canceled):
		return exitError{exitInterrupted, fmt.Errorf("interrupted while %s was being changed: look whether it was", subject)}
	default:
		return fmt.Errorf("the API server did not answer, and %s may have been changed or not: look whether it was: %w", subject, err)
	}
}
