package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/verify"
	"nodekeep.dev/nodekeep/verify/remove"
)

// brakes are what this process itself has seen of brakes, by profile and reason. The ledger has them, too, once they could be written.
type brakes struct {
	mu   sync.Mutex
	seen map[brakeKey]time.Time // when a brake was last seen to be open
}

type brakeKey struct {
	profile string
	reason  verify.BrakeReason
}

// remove removes a Node that failed for good, or records which brake holds that. The order of writes: the report, the entry of the ledger, the removal, the
// entry marked as done, the annotation. A process that is killed in between leaves an entry that counts, and that the next attempt which fails completes.
func (c *Controller) remove(ctx context.Context, n *node, action verify.Action, profiles verify.Profiles) error {
	stored, seen, target, err := c.removals(ctx, n, action)
	if err != nil {
		return err
	}
	decided := action.Decide(seen, profiles.Limits, c.Now())
	if decided.Operation != verify.DoRemove {
		return c.record(ctx, n, decided, profiles)
	}
	if err := c.keepReport(ctx, action.Report(n.full)); err != nil {
		return err
	}
	stored, err = c.ledger.Write(ctx, stored, seen.Ledger.Add(decided.Removal, c.Now()))
	if errors.Is(err, remove.ErrChanged) {
		return err
	} else if err != nil {
		return c.record(ctx, n, decided.BlockedBy(verify.BrakeOf(verify.BrakeLedger, err.Error())), profiles)
	}
	err = c.remover.Remove(ctx, target)
	if errors.Is(err, remove.ErrChanged) {
		return err
	} else if err != nil {
		c.Metrics.removals.WithLabelValues(string(decided.Removal.Kind), outcomeFailed).Inc()
		return c.record(ctx, n, decided.BlockedBy(verify.BrakeOf(verify.BrakeAPIError, err.Error())), profiles)
	}
	c.reportRemoved(n, decided, target)
	if _, err := c.ledger.Write(ctx, stored, stored.Ledger.Finished(n.uid)); err != nil {
		return err // the next turn finds the object removed, and only marks the entry
	}
	return c.record(ctx, n, decided, profiles)
}

// removals reads live what the decision depends on. An error is that something has changed: decide again. What cannot be read holds the removal.
func (c *Controller) removals(ctx context.Context, n *node, action verify.Action) (remove.Stored, verify.Removals, remove.Target, error) {
	seen := verify.Removals{Nodes: map[string]bool{}}
	closes := map[string]bool{}
	for _, profile := range c.Profiles().All() {
		closes[profile.Name] = !profile.ReportsOnly()
	}
	for peer := range all[node](c.nodes) {
		seen.Selected += oneIf(closes[peer.profile])
		if peer.profile == action.Profile.Name {
			seen.Nodes[peer.uid] = peer.fails
		}
	}
	stored, err := c.ledger.Read(ctx)
	if err != nil {
		seen.Blocked = verify.BrakeOf(verify.BrakeLedger, err.Error())
		return stored, seen, remove.Target{}, nil
	}
	seen.Ledger = c.withSeen(stored.Ledger)
	target, held, err := c.confirm(ctx, n, action.Removal.Kind)
	seen.Blocked, seen.Removed = held, target.Removed
	return stored, seen, target, err
}

// confirm finds what is to be removed, and whether something on the Node itself holds that.
func (c *Controller) confirm(ctx context.Context, n *node, kind verify.RemovalKind) (remove.Target, *verify.Brake, error) {
	live, err := c.Client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && (string(live.UID) != n.uid || live.ResourceVersion != n.version):
		return remove.Target{}, nil, remove.ErrChanged // the watch is about to bring it
	case err != nil:
		return remove.Target{}, verify.BrakeOf(verify.BrakeAPIError, err.Error()), nil
	}
	target, err := c.remover.Confirm(ctx, live, kind)
	var refused *remove.RefusedError
	switch {
	case errors.As(err, &refused):
		return target, verify.BrakeOf(verify.BrakeRefused, refused.Reason), nil
	case err != nil:
		return target, verify.BrakeOf(verify.BrakeAPIError, err.Error()), nil
	}
	pod, err := c.remover.Blocking(ctx, n.name)
	switch {
	case err != nil:
		return target, verify.BrakeOf(verify.BrakeAPIError, err.Error()), nil
	case pod != "":
		return target, verify.BrakeOf(verify.BrakePods, "Pod "+pod+" runs on the Node"), nil
	}
	return target, nil, nil
}

// withSeen returns the ledger with the brakes that this process has observed. It may have been unable to write them.
func (c *Controller) withSeen(ledger verify.Ledger) verify.Ledger {
	c.brakes.mu.Lock()
	defer c.brakes.mu.Unlock()
	for key, seen := range c.brakes.seen {
		ledger, _ = ledger.Seeing(key.profile, key.reason, seen)
	}
	return ledger
}

// noteBrake writes down that a brake is open which concerns a whole profile. It never keeps an attempt from being recorded: where it cannot be written, this
// process knows it all the same.
func (c *Controller) noteBrake(ctx context.Context, profile verify.CompiledProfile, reason verify.BrakeReason) {
	if !profile.Removes() {
		return
	}
	now := c.Now()
	c.brakes.mu.Lock()
	c.brakes.seen[brakeKey{profile.Name, reason}] = now
	c.brakes.mu.Unlock()
	stored, err := c.ledger.Read(ctx)
	if err == nil {
		seeing, news := stored.Ledger.Seeing(profile.Name, reason, now)
		if !news {
			return
		}
		_, err = c.ledger.Write(ctx, stored, seeing)
	}
	if err != nil && !errors.Is(err, remove.ErrChanged) { // who was faster is about to remove a Node, or has noted the same; the next attempt notes it again
		c.Logger.Warn("an open brake cannot be written down; only this process knows it", "profile", profile.Name, "reason", reason, "error", err)
	}
}

// reportHeld reports which brake holds a removal. A brake that concerns many Nodes is reported once while it holds, any other once for each Node.
func (c *Controller) reportHeld(n *node, action verify.Action) {
	brake := action.Progress.RemovalHeld
	c.Metrics.removals.WithLabelValues(string(action.Profile.OnFailure), outcomeHeld).Inc()
	if !c.tells(n, action, brake.Reason) {
		return
	}
	c.Logger.Warn("removal of a node is held", "node", n.name, "profile", action.Profile.Name, "reason", brake.Reason, "until", brake.End, "why", brake.Message)
	plural := ""
	if brake.Reason.Shared() {
		plural = ". This holds for other Nodes of the profile, too"
	}
	c.event(n, corev1.EventTypeWarning, RemovalHeld, "The Node failed its checks, and onFailure of profile %s is %s. It is not removed: %s%s. nodekeep goes on to check it, and decides again after the next attempt that fails",
		action.Profile.Name, action.Profile.OnFailure, brake, plural)
}

// tells reports whether an Event is due about a brake.
func (c *Controller) tells(n *node, action verify.Action, reason verify.BrakeReason) bool {
	prev := verify.ParseProgress(n.full.Annotation).RemovalHeld
	switch {
	case reason == verify.BrakeSharedFailure: // the Event SharedFailure reports it
		return false
	case !reason.Shared():
		return prev == nil || prev.Reason != reason
	}
	return c.sharedReports.due(RemovalHeld+"/"+string(reason), n.uid, action, c.Now())
}

// reportRemoved shows a removal.
func (c *Controller) reportRemoved(n *node, action verify.Action, target remove.Target) {
	kind := action.Removal.Kind
	if target.Removed { // an earlier turn has done it, or its owner
		c.Logger.Info("what stands for the node is removed already", "node", n.name, "object", target.String())
		return
	}
	c.Metrics.removals.WithLabelValues(string(kind), outcomeRemoved).Inc()
	c.Logger.Warn("node removed", "node", n.name, "profile", action.Profile.Name, "object", target.String(), "check", action.Progress.Last.Check, "attempts", action.Progress.Attempts)
	message := fmt.Sprintf("nodekeep deleted %s", target)
	if kind == verify.RemoveMachine {
		message = fmt.Sprintf("nodekeep marked %s for remediation", target)
	}
	c.event(n, corev1.EventTypeWarning, NodeRemoved, "%s, since the Node failed %d attempts of profile %s: %s. ConfigMap %s has the report", message, action.Progress.Failed, action.Profile.Name, action.Progress.Last.Diagnosis(), verify.ReportName(n.name))
}
