package view

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/verify"
)

// RecheckPlan is how one Node is checked at once.
type RecheckPlan struct {
	Change      plan.Plan // of the Node; empty: the controller does all that is needed
	Summary     string    // what it means
	Question    string    // empty: there is nothing to do
	Done        string    // what was done, and what the controller does next
	Fingerprint string    // differs if another answer to the question may be right
}

// Writes reports whether the Node is to be changed.
func (r RecheckPlan) Writes() bool { return r.Question != "" }

// RecheckPlanOf plans to check a Node at once, whatever its state is. It is an error where no check can follow. Workers are the worker Pods of
// earlier attempts on the Node; nil: they are not known.
func RecheckPlanOf(node *corev1.Node, workers []*corev1.Pod, p policy.Policy, now time.Time) (RecheckPlan, error) {
	profiles := p.Verify()
	profile, selected := profiles.Match(node.Labels)
	held := profiles.ClosingTaints(node.Spec.Taints)
	incomplete := verify.Incomplete(node.Spec.Taints, string(p.Gate()))
	switch {
	case node.DeletionTimestamp != nil:
		return RecheckPlan{}, fmt.Errorf("nothing was changed: node %q is being deleted", node.Name)
	case profiles.Empty():
		return RecheckPlan{}, fmt.Errorf("nothing was changed: the policy has no profiles in its section verify")
	case !selected && incomplete != "":
		return RecheckPlan{}, fmt.Errorf("nothing was changed: no profile of the policy selects node %q by its labels, which may still change: it has the taint %s", node.Name, incomplete)
	case !selected && len(held) > 0:
		return RecheckPlan{}, fmt.Errorf("nothing was changed: no profile of the policy selects node %q by its labels, so the controller removes %s without a check", node.Name, listOf(taintItems(held)))
	case !selected:
		return RecheckPlan{}, fmt.Errorf("nothing was changed: no profile of the policy selects node %q by its labels", node.Name)
	case profile.ReportsOnly() && len(held) > 0:
		return RecheckPlan{Done: fmt.Sprintf("profile %s only reports; the controller removes %s, and then checks the Node", profile.Name, listOf(taintItems(held)))}, nil
	}
	former, verifyNode := verify.ParseProgress(node.Annotations[verify.Annotation]), verify.NodeOf(node)
	run := RecheckPlan{Change: plan.Plan{ByClient: true}, Fingerprint: profile.Taint.ToString()}
	var progress verify.Progress
	var doneText string // what this command did
	switch {
	case profile.ReportsOnly():
		run.Fingerprint, run.Question = profile.Name, "Check it now?"
		run.Summary = fmt.Sprintf("Profile %s only reports: node %q takes workloads meanwhile, and gets no taint.", profile.Name, node.Name)
		progress, doneText = former.Restart(), "it stays open"
		progress.Asked = now.UTC()
	case len(held) > 0:
		run.Fingerprint, run.Question = "anew", "Start an attempt now?"
		run.Summary = anewSummary(VerificationOf(node, workers, nil, p, now))
		progress, doneText = former.RestartClosed(now), "attempts begin anew"
	default:
		change := CloseEdits(node, p, profile, now)
		run.Change, run.Summary, run.Question = change, recheckSummary(node, profile.Taint), "Verify it again?"
		doneText = "taint " + profile.Taint.ToString() + " added"
		progress = verify.ParseProgress(change.Values()[record.AnnotationKey(verify.Annotation)])
		verifyNode.Taints = append(profiles.Opened(verifyNode.Taints), profile.Taint)
		verifyNode.Labels = withoutKey(verifyNode.Labels, profiles.Label)
	}
	if len(run.Change.Edits) == 0 {
		run.Change.Edits = progressEdits(progress)
	}
	verifyNode.Annotation = progress.String()
	run.Done = doneText + "; " + nextStep(verifyNode, workers, p, now)
	return run, nil
}

// CloseEdits returns the change that has the controller check an open Node as a new one.
func CloseEdits(node *corev1.Node, p policy.Policy, profile verify.CompiledProfile, now time.Time) plan.Plan {
	progress, label := verify.ParseProgress(node.Annotations[verify.Annotation]).AfterOpen().RestartClosed(now), p.Verify().Label
	edits := append(progressEdits(progress), plan.TaintEdits(plan.CauseDerivedTaint, false, profile.Taint)...)
	if _, labelled := node.Labels[label]; labelled {
		edits = append(edits, plan.RemoveItems(plan.CauseCorrection, label)...)
	}
	return plan.Plan{Edits: edits, ByClient: true}
}

// progressEdits returns the edits that note the progress of verification on the Node.
func progressEdits(progress verify.Progress) plan.Edits {
	return plan.SetItems(plan.CauseRecord, map[string]string{record.AnnotationKey(verify.Annotation): progress.String()})
}

// withoutKey returns labels without one.
func withoutKey(labels map[string]string, key string) map[string]string {
	rest := map[string]string{}
	for name, value := range labels {
		if name != key {
			rest[name] = value
		}
	}
	return rest
}

// nextStep says what the verification controller does next with a Node, by the plan that the controller itself makes. It assumes that the DaemonSets of the
// profile are ready, and that a deadline that has passed begins again when the controller observes the taint. The parameter workers has the Pods of earlier
// attempts, which the controller deletes first. If they are not known (nil), the result does not say when the next attempt starts.
func nextStep(node verify.Node, workers []*corev1.Pod, p policy.Policy, now time.Time) string {
	profile, _ := p.Verify().Match(node.Labels)
	seen := verify.Observed{Node: &node, DaemonSets: map[string]bool{}, Held: now}
	for _, name := range profile.Wait.DaemonSets {
		seen.DaemonSets[name] = true
	}
	_, failure, failed := node.Reported()
	failed = failed && node.Verified.Reason == string(verify.CauseRefused)
	var action verify.Action
	for range 4 { // first the controller writes its annotation and the condition, in steps of their own
		action = verify.Plan(seen, p.Verify(), verify.Cluster{Gate: string(p.Gate())}, now)
		switch action.Operation {
		case verify.DoNote:
			node.Annotation = action.Progress.String()
		case verify.DoShow:
			node.Verified, node.ShownAt = action.Show, now
		}
	}
	var preconditions []string
	_, old := attemptsOf(workers, func(*corev1.Pod) bool { return true })
	switch names := namesOf(old); len(names) {
	case 0:
	case 1:
		preconditions = append(preconditions, "worker Pod "+names[0]+", of an attempt before, is deleted")
	default:
		preconditions = append(preconditions, "worker Pods "+strings.Join(names, ", ")+", of attempts before, are deleted")
	}
	if len(profile.Wait.DaemonSets) > 0 {
		preconditions = append(preconditions, "the DaemonSets that profile "+profile.Name+" waits for are Ready on the Node")
	}
	moment := " now"
	switch {
	case len(preconditions) > 0:
		moment = " once " + strings.Join(preconditions, ", and ")
	case workers == nil:
		moment = ""
	}
	next := "no attempt starts yet: " + action.Diagnosis.Sentence(node.Name)
	switch action.Operation {
	case verify.DoStart:
		next = "the controller starts an attempt" + moment
	case verify.DoOpen:
		next = "the profile has no checks, so the controller opens the Node" + moment
	}
	if failed {
		next += ". Its last step failed: " + failure
	}
	return next
}

// recheckSummary explains what another verification means to an open Node.
func recheckSummary(node *corev1.Node, taint corev1.Taint) string {
	means := "Pods that run on it stay; no others are scheduled onto it until it has passed."
	if taint.Effect == corev1.TaintEffectNoExecute {
		means = "The effect NoExecute evicts the Pods that run on it, but for those that tolerate the taint."
	}
	return fmt.Sprintf("Taint %s is added to node %q. %s", taint.ToString(), node.Name, means)
}

// anewSummary explains what another attempt means to a closed Node.
func anewSummary(v Verification) string {
	replaced := ""
	switch len(v.Workers) {
	case 0:
	case 1:
		replaced = ", and worker Pod " + v.Workers[0] + " is replaced"
	default:
		replaced = ", and worker Pods " + strings.Join(v.Workers, ", ") + " are replaced"
	}
	return fmt.Sprintf("Node %q is closed, and %s did not pass. Attempts begin anew%s.", v.Name, Counted(v.Attempts, "attempt"), replaced)
}

// mode says what the mode of a profile means for the Node; nothing for the default.
func (v Verification) mode() string {
	if v.Mode != verify.ModeReport {
		return ""
	}
	return "report: the Node takes workloads whatever its checks say"
}
