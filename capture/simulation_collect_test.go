package capture_test

import (
	"context"
	"slices"
)

// How long records are kept in a scenario: for ever, or for so short a time that each collection removes them.
const (
	keptForEver = "0"
	keptShortly = "30m"
)

func (w *cluster) collectSteps() []step {
	if !w.scenario.collects {
		return nil
	}
	return []step{{4, "collect", func() {
		if w.depth == 0 && !w.reviewing && len(w.captures) > 0 {
			w.anHourPasses()
			w.collect()
		}
	}}}
}

// anHourPasses: everything is delivered meanwhile, and what waits for an answer has given up.
func (w *cluster) anHourPasses() {
	w.say("an hour passes")
	w.hours++
	for len(w.late) > 0 {
		w.landLate()
	}
	for _, h := range w.webhooks {
		h.receiveAll(w)
		h.stale = false
	}
	for range 10 {
		for _, c := range slices.Clone(w.captures) {
			for c.receiveNode() {
			}
			for _, name := range w.scenario.names {
				for c.receiveRecord(name) {
				}
			}
			c.retry()
			c.work()
		}
	}
}

// collect has each process that leads collect records.
func (w *cluster) collect() {
	for _, c := range slices.Clone(w.captures) {
		if c.Leads() && !c.busy && !c.dead {
			w.say("capture: %d collects records", c.id)
			c.hands = nil
			c.runAlone(func() {
				collectRecords(c.controller, c, client{process: c}, func() policyFile { return c.policy.policyFile }, w.now)
			})
		}
	}
}

// Delete removes a record. Then what it held is forgotten, unless the Node has registered by now: then it must be restored.
func (c *process) Delete(ctx context.Context, name, version string) error {
	err := c.call("removes the record of "+name, func() error {
		prev, _ := c.recordOf(name)
		if err := c.records.Delete(ctx, name, version); err != nil {
			return err
		}
		c.writes++
		c.history[name] = append(c.history[name], recordEntry{})
		switch {
		case !saysDeleted(prev):
			c.fail("collect: the record of %s is removed, which does not say that it is deleted", name)
		case !holdsNothing(prev) && c.scenario.retention == keptForEver:
			c.fail("collect: %s is removed although it is kept for ever", describeRecord(prev))
		}
		c.logs[name].forgets, c.logs[name].forgotAt = true, len(c.logs[name].states)
		return nil
	})
	if err == nil {
		c.pendingWrites[name] = len(c.history[name])
	}
	return err
}
