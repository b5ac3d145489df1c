package controller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/verify"
)

// Reasons of the Events on Nodes. That of SharedFailure is on the verified Node which fails, too.
const (
	Verified             = "Verified"           // the checks passed, the taint was removed
	VerificationWaits    = "VerificationWaits"  // the Node waits for long, and not for its checks; once for Nodes that wait for the same
	VerificationFailed   = "VerificationFailed" // an attempt did not pass; once while it lasts where many Nodes get no verdict for the same reason
	VerificationStuck    = "VerificationStuck"  // attempts.max attempts did not pass; it is tried on. As above
	VerificationReleased = verify.EventReleased // the deadline passed, the taint was removed without a passed check
	VerificationUndone   = "VerificationUndone" // another client puts the taint back each time that it is removed; nodekeep pauses
	SharedFailure        = "SharedFailure"      // Nodes of a profile fail a check that a verified Node fails, too; once while it lasts
	NodeRemoved          = "NodeRemoved"        // the profile's onFailure was carried out: the Node, or what stands for it, was removed
	RemovalHeld          = "RemovalHeld"        // the Node is to be removed, and a brake holds that; once while it does
	VerificationAgain    = "VerificationAgain"  // an open Node is closed: its label was removed, or an annotation asks for a check
	RecheckWaits         = "RecheckWaits"       // as many Nodes as may be are closed for this; one for all Nodes that wait
	ProfileNotProved     = "ProfileNotProved"   // a trial of a profile's new checks did not pass on this open Node; once while that lasts
	VerificationEnded    = "VerificationEnded"  // no profile selects the Node any more, or another client removed the taint
)

func (c *Controller) event(n *node, kind, reason, format string, values ...any) {
	c.Events.Eventf(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.name, UID: types.UID(n.uid)}, kind, reason, format, values...)
}

// reportReturns shows, once, that the taint keeps returning; from then on the Events of each round are left out. It reports whether it does.
func (c *Controller) reportReturns(n *node, action verify.Action) bool {
	returns := action.Progress.Returns
	if returns == verify.FreeReturns+1 {
		c.event(n, corev1.EventTypeWarning, VerificationUndone,
			"Another client, often a mutating admission policy or webhook, put the taint back, or removed the label, %d times in a row soon after the Node was opened. nodekeep goes on after pauses that grow to 5 minutes", returns)
	}
	return returns > verify.FreeReturns
}

// reportVerified shows a Node that was opened.
func (c *Controller) reportVerified(n *node, action verify.Action) {
	c.count(action)
	took := c.Now().Sub(slices.MaxFunc([]time.Time{n.full.ReadySince, n.full.Created}, time.Time.Compare)) // a kubelet writes when it became Ready
	if took >= 0 {
		c.Metrics.verified.WithLabelValues(action.Profile.Name).Observe(took.Seconds())
	}
	skipped := ""
	if names := action.Progress.Last.Skipped; len(names) > 0 {
		skipped = "; skipped, since the cluster cannot answer them yet: " + strings.Join(names, ", ")
	}
	c.Logger.Info("node verified", "node", n.name, "profile", action.Profile.Name, "seconds", took.Round(time.Millisecond).Seconds(), "skipped", action.Progress.Last.Skipped)
	if c.reportReturns(n, action) {
		return
	}
	if action.Profile.OnlyWaits() {
		c.event(n, corev1.EventTypeNormal, Verified, "What profile %s waits for holds: the taint was removed", action.Profile.Name)
		return
	}
	c.event(n, corev1.EventTypeNormal, Verified, "The checks of profile %s passed: the taint was removed%s", action.Profile.Name, skipped)
}

// othersToo ends an Event that is one for many Nodes.
const othersToo = ". Other Nodes of the profile with the same result may get no Event while this lasts; `nodekeep list --waiting verification` shows them"

// reportAttempt shows an attempt that did not pass.
func (c *Controller) reportAttempt(n *node, action verify.Action) {
	c.count(action)
	progress := action.Progress
	c.Logger.Info("attempt did not pass", "node", n.name, "profile", action.Profile.Name, "attempt", progress.Attempts,
		"verdict", progress.Last.Result, "check", progress.Last.Check, "reason", progress.Last.Reason)
	if action.Judged.Garbage != nil {
		if first := !c.memory.get(n.uid).garbage; first {
			c.memory.change(n.uid, func(entry *remembered) { entry.garbage = true })
			c.Logger.Warn("a worker's report cannot be used; this is logged once for each Node", "node", n.name, "pod", action.Pod.Name, "error", action.Judged.Garbage)
		}
	}
	if progress.Last.Result == verify.VerdictShared {
		c.reportShared(n, action)
		return
	}
	reason, next := VerificationFailed, fmt.Sprintf("The next attempt comes in %s", progress.Pause(action.Profile))
	if progress.Attempts == action.Profile.MaxAttempts || progress.Stuck(action.Profile) && progress.Last.Result == verify.VerdictInconclusive {
		reason, next = VerificationStuck, fmt.Sprintf("It is tried on, every %s", progress.Pause(action.Profile))
	}
	suffix := ""
	if last := progress.Last; last.Result == verify.VerdictInconclusive && progress.Failed == 0 { // what failed before is this Node's own
		if !c.sharedReports.due(strings.Join([]string{reason, action.Profile.Hash, last.Check, string(last.Diagnosis().Cause)}, "/"), n.uid, action, c.Now()) {
			return
		}
		suffix = othersToo
	}
	c.event(n, corev1.EventTypeWarning, reason, "Attempt %d of profile %s did not pass: %s. %s. ConfigMap %s has the report%s",
		progress.Attempts, action.Profile.Name, progress.Last.Diagnosis().Sentence(n.name), next, verify.ReportName(n.name), suffix)
}

// reportWaits shows what a Node waits for, once its condition says so.
func (c *Controller) reportWaits(n *node, profile verify.CompiledProfile, show verify.Projection) {
	row, _ := verify.Cause(show.Reason).Explain()
	if !row.Lasts || !c.sharedReports.due(show.Reason, n.uid, verify.Action{Profile: profile}, c.Now()) {
		return
	}
	c.Logger.Warn("node waits for long", "node", n.name, "profile", profile.Name, "cause", show.Reason)
	c.event(n, corev1.EventTypeWarning, VerificationWaits, "The Node waits to be verified: %s%s", show.Message, othersToo)
}

// reportShared reports that the Nodes of a profile fail a check as verified Nodes do. It does so once while that lasts, not for each Node.
func (c *Controller) reportShared(failing *node, action verify.Action) {
	if !c.sharedReports.due(verify.ReasonShared, failing.uid, action, c.Now()) {
		return
	}
	last := action.Progress.Last
	c.Logger.Warn("nodes fail a check that verified nodes fail, too; no attempts are counted", "profile", action.Profile.Name, "check", last.Check, "message", last.Message)
	object, _, err := c.nodes.GetStore().GetByKey(action.ControlOn)
	if n, ok := object.(*node); ok && err == nil {
		c.event(n, corev1.EventTypeWarning, SharedFailure, "Check %s of profile %s fails on new Nodes and on this verified Node: %s. What it asks is broken, not the new Nodes: their attempts are not counted, "+
			"and they are tried again each minute", last.Check, action.Profile.Name, last.Message)
	}
}

// reportTrial shows a trial that did not pass, on the open Node that it ran on.
func (c *Controller) reportTrial(n *node, profile verify.CompiledProfile, report verify.SavedReport) {
	c.Logger.Info("trial of a profile has ended", "node", n.name, "profile", profile.Name, "verdict", report.Result, "check", report.Check, "reason", report.Reason)
	action := verify.Action{Profile: profile, Progress: verify.Progress{Attempts: report.Attempt}}
	if report.Result == verify.VerdictPassed || !c.sharedReports.due(ProfileNotProved+"/"+profile.Hash, n.uid, action, c.Now()) {
		return
	}
	c.event(n, corev1.EventTypeWarning, ProfileNotProved, "Profile %s: not yet proved: %s. This Node stays open", profile.Name, report.TrialWhy(""))
}

// reportEnded shows a Node whose verification ended without a passed attempt.
func (c *Controller) reportEnded(n *node, action verify.Action) {
	verdict := action.Progress.Last.Result
	c.Metrics.verdicts.WithLabelValues(action.Profile.Name, string(verdict)).Inc()
	c.Logger.Info("verification ended", "node", n.name, "profile", action.Profile.Name, "how", verdict)
	if c.reportReturns(n, action) {
		return
	}
	if verdict == verify.VerdictReleased {
		c.event(n, corev1.EventTypeWarning, VerificationReleased, "The taint was removed: %s", action.Progress.Last.Diagnosis().Sentence(n.name))
		return
	}
	c.event(n, corev1.EventTypeNormal, VerificationEnded, "The Node is not verified any more: %s", action.Progress.Last.Message)
}

// count counts what came of an attempt.
func (c *Controller) count(action verify.Action) {
	profile := action.Profile.Name
	verdict := action.Judged.Verdict
	if action.Judged.Garbage != nil {
		verdict = verdictBadReport
	}
	c.Metrics.verdicts.WithLabelValues(profile, string(verdict)).Inc()
	for _, result := range action.Judged.Results {
		c.Metrics.results.WithLabelValues(profile, result.Check, string(result.Outcome)).Inc()
		if took, ok := action.Profile.Took(result); ok {
			c.Metrics.took.WithLabelValues(profile, result.Check, string(result.Outcome)).Observe(took.Seconds())
		}
	}
	for _, name := range action.Pod.Skipped {
		c.Metrics.results.WithLabelValues(profile, name, string(verify.Skipped)).Inc()
	}
	for _, container := range action.Pod.Containers {
		if took := container.Started.Sub(action.Pod.Created); container.Name == verify.Worker && !container.Started.IsZero() && took >= 0 {
			c.Metrics.podStart.WithLabelValues(profile).Observe(took.Seconds())
		}
	}
}
