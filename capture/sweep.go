package capture

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"

	"nodekeep.dev/nodekeep/store"
)

// Sweep is how the records of Nodes that are gone are collected once the policy keeps them no longer.
type Sweep struct {
	Every    time.Duration // 0: never
	Fraction float64       // of all records, how many one sweep may collect at most, but always one
	Remover  Remover
	Metrics  *SweepMetrics
}

// Remover takes a record away that was found to be due, whose Node was just found to be gone; or does as if.
type Remover interface {
	Remove(ctx context.Context, entry store.Entry) (Outcome, error)
}

// looksPerSecond bounds how many records are looked at, and so removed, per second. Each costs up to four API calls, which
// nobody waits for.
const looksPerSecond = 10

// sweepFromTimeToTime runs until ctx is done, and is begun only when every Node and record that existed is in memory. A process
// that has just begun to lead waits for its next turn.
func (c *Controller) sweepFromTimeToTime(ctx context.Context) {
	if c.Sweep.Every == 0 {
		return
	}
	limiter := flowcontrol.NewTokenBucketRateLimiter(looksPerSecond, 1)
	ticker := time.NewTicker(c.Sweep.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.sweep(ctx, limiter.Wait)
		}
	}
}

// sweep looks at the records that are due, those first whose Nodes have been gone for longest, and ends with the first error:
// an API server in trouble is left in peace, and what it says of Nodes proves nothing. wait keeps to the pace.
func (c *Controller) sweep(ctx context.Context, wait func(context.Context) error) {
	if !c.leading.Load() {
		return
	}
	found := c.find()
	c.Sweep.Metrics.found(found)
	outcomes := map[Outcome]int{}
	var failure error
	for _, record := range oldest(found.due, atMost(c.Sweep.Fraction, found.all)) {
		if wait(ctx) != nil || !c.leading.Load() {
			break // told to stop
		}
		outcome, err := c.collect(ctx, record.node)
		c.Sweep.Metrics.ended(outcome)
		outcomes[outcome]++
		c.reportSwept(record, outcome)
		if failure = err; failure != nil {
			break
		}
	}
	c.reportSweep(found, outcomes, failure)
}

// findings are the records that a sweep begins with.
type findings struct {
	all  int // records, readable or not
	gone int // those of Nodes that are gone
	due  []candidate
}

// find looks through the records in memory. A Node that the watch knows, or knew and nobody has dealt with its end, is not gone.
func (c *Controller) find() (found findings) {
	retention, now := c.Policy().Retention(), c.Now()
	for _, node := range c.Records.Nodes() {
		found.all++
		entry, err := c.Records.Get(node)
		if err != nil || entry.Record.DeletedAt == nil {
			continue
		}
		found.gone++
		if Due(entry.Record, retention, now) && !c.sightings.knows(node) {
			found.due = append(found.due, candidate{node: node, gone: entry.Record.DeletedAt.Time})
		}
	}
	return found
}

// collect has a record removed if all that is known live says that it is due and its Node gone. Meanwhile no plan is made
// for the name.
func (c *Controller) collect(ctx context.Context, node string) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, turn)
	defer cancel()
	defer c.turns.take(node)()
	entry, err := c.Records.GetLive(ctx, node)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrUnreadable):
		return Kept, nil
	case err != nil:
		return Failed, err
	case c.sightings.knows(node), !Due(entry.Record, c.Policy().Retention(), c.Now()):
		return Kept, nil
	}
	if gone, err := isGone(ctx, c.Client, node); err != nil {
		return Failed, err
	} else if !gone {
		return Kept, nil
	}
	return c.Sweep.Remover.Remove(ctx, entry)
}

// isGone reports whether the API server says of its own that there is no such Node. What stands between may answer 404 for
// reasons of its own.
func isGone(ctx context.Context, client kubernetes.Interface, node string) (bool, error) {
	_, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	switch {
	case err == nil:
		return false, nil
	case apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return true, nil
	default:
		return false, fmt.Errorf("look for node %q: %w", node, err)
	}
}
