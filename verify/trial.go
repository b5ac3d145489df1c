package verify

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TrialPrefix is how the names of trial Pods begin. Such a Pod asks the network checks of a profile on an open Node, before new Nodes wait for them.
// Its result is shown, and decides nothing.
const TrialPrefix = "trial-"

// trialPrefix is how the name of the ConfigMap begins that keeps the last trial of a profile.
const trialPrefix = "profile."

// TrialName returns the name of the ConfigMap that keeps the last trial of a profile.
func TrialName(profile string) string { return trialPrefix + profile }

// TrialKey names a trial of what the profile asks, as [CompiledProfile.ControlKey] names controls.
func (p CompiledProfile) TrialKey() string { return TrialPrefix + p.ControlKey() }

// CanBeProved reports whether Nodes wait for checks of the profile. They wait for none of a profile without checks, nor of one that only reports.
func (p CompiledProfile) CanBeProved() bool { return !p.OnlyWaits() && !p.ReportsOnly() }

// Triable reports whether a trial can show anything: the profile requires a check that another Node can answer as well.
func (p CompiledProfile) Triable() bool {
	return p.CanBeProved() && slices.ContainsFunc(p.Checks, func(check Check) bool { return check.ByWorker() && check.IsRequired() })
}

// Named returns the profile of a name.
func (p Profiles) Named(name string) (profile CompiledProfile, ok bool) {
	i := slices.IndexFunc(p.all, func(compiled CompiledProfile) bool { return compiled.Name == name })
	if i < 0 {
		return CompiledProfile{}, false
	}
	return p.all[i], true
}

// Shows is what one Node shows of the checks of the profile that selects it.
type Shows struct {
	Profile  string // empty: none selects it
	Proves   bool   // it passed the checks that the profile has now, all of them
	Open     bool   // a trial can run on it
	Verified bool   // it is open because it passed its checks, of now or of before
}

// Shows returns what a Node shows; gate is the key of the gate's taint. The annotation counts, which no kubelet may write where the guard policies are in
// force.
func (p Profiles) Shows(object *corev1.Node, gate string) Shows {
	node := NodeOf(object)
	profile, ok := p.Match(node.Labels)
	if !ok {
		return Shows{}
	}
	progress := ParseProgress(node.Annotation)
	_, notReady := node.notReady()
	open := !node.Deleting && !notReady && !object.Spec.Unschedulable && len(p.ClosingTaints(node.Taints)) == 0 && Incomplete(node.Taints, gate) == ""
	return Shows{
		Profile: profile.Name, Open: open, Verified: open && p.Controls(&node),
		Proves: progress.Hash == profile.Hash && progress.Last != nil && progress.Last.Result == VerdictPassed && len(progress.Last.Skipped) == 0,
	}
}

// TrialReport returns what is kept of a trial that has ended. It was one of so many tries of these checks, the last one.
func (p CompiledProfile) TrialReport(judged Judged, node string, uid string, tries int, now time.Time) SavedReport {
	return SavedReport{
		Node: node, UID: uid, Profile: p.Name, Hash: p.Hash, Attempt: tries, Time: now,
		Result: judged.Verdict, Check: judged.Check, Reason: judged.Reason, Message: judged.Message, Results: judged.Results,
	}
}

// TrialOf reports whether a report is of a trial of the checks that the profile has now.
func (r SavedReport) TrialOf(profile CompiledProfile) bool {
	return r.Profile == profile.Name && r.Hash != "" && r.Hash == profile.Hash
}

// TrialWhy says why a trial did not pass. Tried is how long ago it was, as "3m ago"; empty: it was just now.
func (r SavedReport) TrialWhy(tried string) string {
	place := strings.TrimSuffix("Node "+r.Node+" "+tried, " ")
	if r.Result == VerdictFailed {
		text := "check " + r.Check + " failed in a trial on " + place + " (" + cmp.Or(r.Reason, string(ReasonError)) + ")"
		if r.Message != "" {
			text += ": " + Shorten(r.Message)
		}
		return text + "; correct the check or what it asks for, or new Nodes wait"
	}
	diagnosis := Last{Result: r.Result, Check: r.Check, Reason: r.Reason, Message: Shorten(r.Message)}.Diagnosis()
	return "the trial on " + place + " gave no result: " + diagnosis.String()
}
