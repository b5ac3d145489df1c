package controller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/verify"
)

// remembers is how long what this process started on an open Node stays in memory. The watch has brought the worker Pod by then.
const remembers = 2 * time.Minute

// observeOpen is observe for an open Node of a profile that only reports. Memory holds little of the many such Nodes. So the Node is read live when
// something is to be done about it. Of those that are due, only the Node whose turn it is costs API calls.
func (c *Controller) observeOpen(ctx context.Context, n *node, seen verify.Observed, profiles verify.Profiles) (*node, verify.Observed, error) {
	now, idle := c.Now(), len(seen.Pods) == 0
	if forgotten := c.memory.get(n.uid).started.Add(remembers); idle && !now.Before(forgotten) {
		c.memory.reset(n.uid)
	} else if idle {
		c.queue.AddAfter(n.name, forgotten.Sub(now))
	}
	due := !n.look.Time.IsZero() && !now.Before(n.look.Time)
	switch {
	case !c.Leading() || idle && n.look.Time.IsZero():
		return n, verify.Observed{}, nil
	case idle && !due:
		c.queue.AddAfter(n.name, n.look.Time.Sub(now))
		return n, verify.Observed{}, nil
	case idle && n.look.Waits && !c.hasTurn(n):
		return n, verify.Observed{}, errNoTurn
	}
	live, err := c.readNode(ctx, n)
	if err != nil || live == nil || len(profiles.ClosingTaints(live.taints)) > 0 { // the watch is about to bring the taint
		return nil, verify.Observed{}, err
	}
	seen.Node = live.full
	return c.observeAttempt(ctx, live, seen, profiles)
}

// hasTurn reports whether it is a Node's turn to be checked. Until then it waits in line, after all Nodes that take no workloads.
func (c *Controller) hasTurn(n *node) (ok bool) {
	c.starting(func(starts *verify.Starts) {
		if ok = starts.Granted(n.name); !ok {
			starts.Want(n.name, n.look.Turn)
		}
	})
	return ok
}

// isTurn is hasTurn for a Node that need not wait in line.
func (c *Controller) isTurn(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.starts.Granted(name)
}

// reportPassed shows that the checks of an open Node have passed. Only one that failed before gets an Event: each passes again and again.
func (c *Controller) reportPassed(n *node, action verify.Action) {
	c.count(action)
	if verify.ParseProgress(n.full.Annotation).Tried() {
		c.Logger.Info("open node passes its checks again", "node", n.name, "profile", action.Profile.Name)
		c.event(n, corev1.EventTypeNormal, Verified, "The checks of profile %s pass again", action.Profile.Name)
	}
}
