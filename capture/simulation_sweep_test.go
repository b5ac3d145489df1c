//go:build oldcore

package capture

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nodekeep.dev/nodekeep/store"
)

// How long records are kept in a story: those that hold something for ever, or for so short a time that each sweep forgets.
const (
	keptForEver = "0"
	keptShortly = "30m"
)

func (w *world) sweepSteps() []step {
	if !w.story.sweeps {
		return nil
	}
	return []step{{4, "sweep", func() {
		if w.depth == 0 && !w.reviewing && len(w.captures) > 0 {
			w.anHourPasses()
			w.sweep()
		}
	}}}
}

// now is the time in the story; it stands still but between sweeps.
func (w *world) now() time.Time { return now.Add(time.Duration(w.hours)*time.Hour + w.waited) }

// anHourPasses: everybody hears of everything meanwhile, and what waits for an answer has given up. A webhook that hears
// nothing for as long as that, and is called all the same, restores what nobody can tell any more from what is right.
func (w *world) anHourPasses() {
	w.say("an hour passes")
	w.hours++
	for len(w.late) > 0 {
		w.landLate()
	}
	for _, h := range w.webhooks {
		for name, history := range w.history {
			h.heard[name] = len(history)
		}
		h.stale = false
	}
	for range 10 {
		for _, c := range slices.Clone(w.captures) {
			for c.hearNext() {
			}
			for _, name := range w.story.names {
				for c.hearRecord(name) {
				}
			}
			c.queue.retry()
			if !c.dead {
				c.work()
			}
		}
	}
}

// sweep has the process that leads, or both, collect records.
func (w *world) sweep() {
	for _, c := range slices.Clone(w.captures) {
		if c.leads() && !c.busy && !c.dead {
			w.say("capture: %d sweeps", c.id)
			c.sweep()
		}
		for name := range w.bereft { // it was not put back as it was
			if _, found := w.recordOf(name); !found && w.nodes[name] != nil && !c.dead && w.story.errors == 0 {
				w.fail("the record of %s was removed although it lives, and not put back", name)
			}
			w.model.forget(name)
		}
		clear(w.bereft)
	}
}

func (c *simCapture) sweep() {
	depth, reviewing := c.depth, c.reviewing
	c.busy = true
	defer func() {
		c.busy, c.depth, c.reviewing = false, depth, reviewing
		if why := recover(); why != nil && why != any(crashed{c}) {
			panic(why)
		}
	}()
	c.controller.sweep(context.Background(), func(context.Context) error { return nil })
}

// sweeping is how a process of the simulation sweeps.
func (c *simCapture) sweeping() Sweep {
	return Sweep{Fraction: 1, Remover: Removal{Records: c, Client: simClient{capture: c}}, Metrics: NewSweepMetrics(prometheus.NewRegistry())}
}

// Delete removes a record. What it held is forgotten, unless its Node is there by now: then it must be put back.
func (c *simCapture) Delete(ctx context.Context, node, version string) error {
	err := c.call("remove the record of "+node, func() error {
		before, _ := c.recordOf(node)
		if err := c.records.Delete(ctx, node, version); err != nil {
			return err
		}
		c.writes++
		c.history[node] = append(c.history[node], store.Entry{})
		switch {
		case before.DeletedAt == nil:
			c.fail("the record of %s is removed, which does not say that it is gone", node)
		case before.HoldsNothing():
		case c.story.retention == keptForEver:
			c.fail("%s is removed although it is kept for ever", brief(before))
		case c.nodes[node] != nil:
			c.bereft[node] = true
		default:
			c.model.forget(node)
		}
		return nil
	})
	if err == nil {
		c.own[node] = len(c.history[node])
	}
	return err
}

// putBack notes that a record was made again; what it held is not forgotten if it is as it was.
func (w *world) putBack(entry store.Entry) {
	node := entry.Record.Node
	if last := w.history[node]; w.bereft[node] && len(last) > 1 && entry.Record.Same(last[len(last)-2].Record) {
		delete(w.bereft, node)
	}
}

// forget notes that what was remembered of a Node may be forgotten.
func (m *simModel) forget(node string) {
	for _, key := range simKeys {
		label := simLabel{node, key}
		m.edits[label] = append(m.edits[label], &edit{value: unset})
	}
}
