package capture

import (
	"context"
	"time"

	"k8s.io/client-go/util/flowcontrol"

	"nodekeep.dev/nodekeep/contain"
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
			_ = c.contained("sweep records", "", func() error { c.sweep(ctx, limiter.Wait); return nil })
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
		if err != nil && ctx.Err() != nil {
			break // told to stop, which is no error
		}
		c.Sweep.Metrics.ended(outcome)
		outcomes[outcome]++
		c.reportSwept(record, outcome)
		if _, panicked := contain.IsPanic(err); panicked {
			continue // that is about this record, and the API server is not in trouble
		}
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

// find looks through the records in memory. One that makes this panic is not due, and stops no other. A Node that the watch knows, or knew and nobody has dealt with its end, is not gone.
func (c *Controller) find() (found findings) {
	retention, now := c.Policy().Retention(), c.Now()
	for _, node := range c.Records.Nodes() {
		found.all++
		_ = c.contained("judge record", node, func() error {
			entry, err := c.Records.Get(node)
			if err != nil || entry.Record.DeletedAt == nil {
				return nil //nolint:nilerr // no record, or none that may be touched
			}
			found.gone++
			if Due(entry.Record, retention, now) && !c.sightings.knows(node) {
				found.due = append(found.due, candidate{node: node, gone: entry.Record.DeletedAt.Time})
			}
			return nil
		})
	}
	return found
}

// collect has a record removed if all that is known live says that it is due and its Node gone. Meanwhile no plan is made
// for the name.
func (c *Controller) collect(ctx context.Context, node string) (outcome Outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, turn)
	defer cancel()
	defer c.turns.take(node)()
	outcome = Failed // what a panic leaves
	err = c.contained("collect record", node, func() (err error) {
		outcome, err = Collect(ctx, c.Records, c.Client, c.Sweep.Remover, node, func(record store.Record) bool {
			return !c.sightings.knows(node) && Due(record, c.Policy().Retention(), c.Now())
		})
		return err
	})
	return outcome, err
}
