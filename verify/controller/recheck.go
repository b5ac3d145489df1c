package controller

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"nodekeep.dev/nodekeep/verify"
	"nodekeep.dev/nodekeep/verify/remove"
)

// closing is a Node that this process closes to check it again, until the watch shows the taint.
type closing struct {
	profile  string
	takes    bool
	deadline time.Time // after it, the write is taken not to have happened
}

// closingLasts is longer than the write and its event take together.
const closingLasts = 2 * reconcileTimeout

// room returns how many Nodes of a profile may be closed to check them again. This Node is to be the next.
func (s *standing) room(n *node, profile string, now time.Time) verify.Room {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roomFor(n, profile, now)
}

// reserve notes that a Node is being closed, if it still may be. So Nodes that are worked on at the same time do not exceed the limit together.
func (s *standing) reserve(n *node, profile string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.roomFor(n, profile, now).Refuses() != "" {
		return false
	}
	s.closing[n.uid] = closing{profile: profile, takes: n.takes, deadline: now.Add(closingLasts)}
	return true
}

// release notes that a Node is not being closed.
func (s *standing) release(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.closing, uid)
}

// waits notes that a Node waits until it may be closed.
func (s *standing) waits(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[name] = true
}

// next returns Nodes that waited, for the place of one that has opened. There are two, since one may not wait any more.
func (s *standing) next() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.waiting {
		if len(names) < 2 {
			names = append(names, name)
			delete(s.waiting, name)
		}
	}
	return names
}

// roomFor is called with the lock.
func (s *standing) roomFor(n *node, profile string, now time.Time) verify.Room {
	room := verify.Room{Selected: s.open[profile], Closed: s.rechecked[profile], Takers: s.takers, Takes: n.takes}
	for _, entry := range s.closed {
		room.Selected += oneIf(entry.profile == profile)
	}
	for uid, entry := range s.closing {
		if uid == n.uid || now.After(entry.deadline) {
			continue
		}
		room.Closed += oneIf(entry.profile == profile)
		room.Takers -= oneIf(entry.takes)
	}
	return room
}

// recheck closes an open Node, to check it again.
func (c *Controller) recheck(ctx context.Context, n *node, action verify.Action, profiles verify.Profiles) error {
	if !c.standing.reserve(n, action.Profile.Name, c.Now()) {
		c.queue.AddAfter(n.name, firstRetry) // another Node was faster: the plan says why this one waits
		return nil
	}
	err := c.patchNode(ctx, n, action, profiles)
	var status apierrors.APIStatus
	if errors.Is(err, remove.ErrChanged) || errors.As(err, &status) {
		c.standing.release(n.uid) // it was not written; otherwise that is not known
	}
	if err != nil {
		return err
	}
	c.memory.change(n.uid, func(entry *remembered) { entry.served = n.full.Request })
	c.Logger.Info("node is verified again", "node", n.name, "profile", action.Profile.Name, "reason", action.Recheck)
	if action.Progress.Returns <= verify.FreeReturns { // see reportReturns
		c.event(n, corev1.EventTypeNormal, VerificationAgain, "The Node is checked again: %s", action.Recheck)
	}
	return nil
}

// reportBraked shows, once for all Nodes of a profile, that Nodes wait to be checked again for the same reason.
func (c *Controller) reportBraked(n *node, action verify.Action) {
	c.standing.waits(n.name)
	if c.sharedReports.due("recheck/"+action.Diagnosis.Detail, n.uid, action, c.Now()) {
		c.Logger.Info("nodes wait to be verified again", "node", n.name, "profile", action.Profile.Name, "reason", action.Diagnosis.Detail)
		c.event(n, corev1.EventTypeNormal, RecheckWaits, "The Node is checked again later: %s%s", action.Diagnosis.Detail, othersToo)
	}
}
