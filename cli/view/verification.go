package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/verify"
)

// Verification is where a Node stands: whether it takes workloads, and if not, what it waits for.
type Verification struct {
	Name    string       `json:"name"`
	State   verify.State `json:"state"`
	Profile string       `json:"profile,omitempty"` // the first that selects it
	Mode    verify.Mode  `json:"mode,omitempty"`    // of the profile
	Taints  []string     `json:"taints,omitempty"`  // of verification, that the Node has
	Created time.Time    `json:"since,omitzero"`    // when the Node was created
	// Attempts are those of this round that did not pass, of MaxAttempts until it counts as stuck.
	Attempts    int `json:"attempts"`
	MaxAttempts int `json:"maxAttempts,omitempty"`
	// Cause is why, in a word, and Reason is the sentence that the condition and Events have, too; see [verify.Causes].
	Cause  verify.Cause `json:"cause"`
	Reason string       `json:"why"`
	Due    time.Time    `json:"due,omitzero"` // the deadline, of a Node with the taint
	// Next is when the next attempt starts at the earliest. It is zero if the Node waits for something else. Of a profile that only reports, it is when
	// the next check is due.
	Next      time.Time `json:"next,omitzero"`
	OnTimeout string    `json:"onTimeout,omitempty"`
	// Workers are the worker Pods of the attempt that is on. There may be several: a controller that takes over starts one of its own. So State and Reason
	// are about the first of them, the newest that has not ended.
	Workers []string `json:"workers,omitempty"`
	// Passed is what an open Node has passed. It is nil if the Node has not passed, or if that is not known.
	Passed *PassedChecks `json:"passed,omitempty"`
	Last   *verify.Last  `json:"last,omitempty"` // how the last attempt, or the last round, ended
	// OnFailure is what the profile removes when all attempts have failed; empty: nothing, or the Node is open.
	OnFailure   string             `json:"onFailure,omitempty"`
	Removing    verify.RemovalKind `json:"removing,omitempty"`    // what was removed to have the Node removed
	RemovalHeld *verify.Brake      `json:"removalHeld,omitempty"` // why the Node is not removed, after the last attempt
}

// PassedChecks is what a Node has passed.
type PassedChecks struct {
	Profile    string `json:"profile"`
	Generation int64  `json:"generation"` // of the NodePolicy
	Current    bool   `json:"current"`    // the profile that selects the Node asks the same now
}

// passedBy returns what the annotation of a Node says that it has passed.
func passedBy(node verify.Node, profile verify.CompiledProfile) *PassedChecks {
	progress := verify.ParseProgress(node.Annotation)
	if progress.Generation < 1 || progress.Last == nil || progress.Last.Result != verify.VerdictPassed {
		return nil
	}
	return &PassedChecks{Profile: verify.Shorten(progress.Profile), Generation: progress.Generation, Current: progress.Hash == profile.Hash && profile.Name != ""}
}

func (p *PassedChecks) text() string {
	if p == nil {
		return ""
	}
	text := fmt.Sprintf("profile %s as of generation %d of the policy", p.Profile, p.Generation)
	if !p.Current {
		text += "; the policy asks something else now"
	}
	return text
}

// StateVerified is an open Node that has passed its checks; [verify.StateOpen] is one that has not.
const StateVerified verify.State = "verified"

// VerificationOf shows the state of a Node's verification, as far as the Node and its worker Pods show it.
//
// In ready are the DaemonSets that have a Ready Pod on the Node. If it is nil, they are not known, and are taken to be ready.
func VerificationOf(node *corev1.Node, workers []*corev1.Pod, ready map[string]bool, p policy.Policy, now time.Time) Verification {
	profiles := p.Verify()
	v := Verification{Name: node.Name, Created: node.CreationTimestamp.UTC()}
	verifyNode := verify.NodeOf(node)
	seen := verify.Observed{Node: &verifyNode, DaemonSets: ready}
	held := profiles.ClosingTaints(node.Spec.Taints)
	profile, ok := profiles.Match(node.Labels)
	tried := verify.ParseProgress(verifyNode.Annotation) // what is known, whatever the next step writes
	if ok {
		v.Profile, v.MaxAttempts, v.OnTimeout, v.Mode = profile.Name, profile.MaxAttempts, string(profile.OnTimeout), profile.Mode
		if profile.OnlyWaits() {
			v.MaxAttempts = 0
		}
		if profiles.MayRemove(&verifyNode) {
			v.OnFailure = string(profile.OnFailure)
		}
		if ready == nil {
			seen.DaemonSets = map[string]bool{}
			for _, name := range profile.Wait.DaemonSets {
				seen.DaemonSets[name] = true
			}
		}
		if len(held) > 0 || profile.ReportsOnly() {
			tried = profile.ProgressOf(&verifyNode)
		}
	}
	checked := ok && (len(held) > 0 || profile.ReportsOnly())
	current, old := attemptsOf(workers, func(pod *corev1.Pod) bool { return !checked || tried.Outdated(verify.PodOf(pod), &verifyNode, now) })
	if v.Workers = namesOf(current); len(current) > 0 {
		seen.Pods = []verify.Pod{verify.PodOf(current[0])} // the controller knows which Pods are its own
		seen.Worker = verify.OwnPod{UID: string(current[0].UID), Attempt: profile.NextAttempt(&verifyNode)}
	}
	next := verify.Plan(seen, profiles, verify.Cluster{Gate: string(p.Gate())}, now)
	v.State, v.Attempts, v.Last = next.State, tried.Attempts, tried.Last
	diagnosis := next.Diagnosis
	starts := next.Operation == verify.DoStart
	if starts && len(old) > 0 && len(held) > 0 {
		diagnosis = verify.Diagnosis{Cause: verify.CauseOldWorker, Detail: strings.Join(namesOf(old), ", ")}
	}
	v.Cause, v.Reason = diagnosis.Cause, diagnosis.Sentence(node.Name)
	if !next.Due.IsZero() {
		v.Due = next.Due.UTC()
	}
	for _, taint := range held {
		v.Taints = append(v.Taints, taint.ToString())
	}
	if len(v.Taints) == 0 {
		v.MaxAttempts, v.OnTimeout, v.OnFailure = 0, "", ""
		if v.State != verify.StateFailing {
			v.State = verify.StateOpen
		}
		switch {
		case v.Mode != verify.ModeReport || len(v.Workers) > 0:
		case starts:
			v.Next = now.UTC()
		case !next.Requeue.IsZero():
			v.Next = next.Requeue.UTC()
		}
		switch {
		case v.Cause == verify.CauseChecksPassed:
			v.State = StateVerified
		case profiles.Suspended && v.Mode != verify.ModeReport:
			v.Reason = next.Diagnosis.String() + "; no Node is checked in an emergency"
		case !ok && v.Cause != verify.CauseKeyChanged:
			v.Reason = next.Diagnosis.String() + "; no profile selects the Node"
		}
		v.Passed = passedBy(verifyNode, profile)
		return v
	}
	v.Removing, v.RemovalHeld = tried.Removing, tried.RemovalHeld
	if cause, sentence, ok := verifyNode.Reported(); ok && next.Acts() {
		v.Cause, v.Reason = cause, sentence
	}
	starts = starts && v.Cause == next.Diagnosis.Cause // else it waits for what Reason names
	if due := tried.Next(profile, now); v.MaxAttempts > 0 && len(v.Workers) == 0 && (starts || !next.Acts() && tried.Tried() && due.After(now)) {
		v.Next = due.UTC()
	}
	return v
}

// attemptsOf separates the worker Pods of the attempt that is on from those of attempts before, which are over. Of each, those that have not ended come
// first, and the newer ones.
func attemptsOf(workers []*corev1.Pod, isOld func(*corev1.Pod) bool) (current, old []*corev1.Pod) {
	ended := func(pod *corev1.Pod) int {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			return 1
		}
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(workers), func(a, b *corev1.Pod) int {
		return cmp.Or(ended(a)-ended(b), b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	for _, pod := range sorted {
		if isOld(pod) {
			old = append(old, pod)
		} else {
			current = append(current, pod)
		}
	}
	return current, old
}

// namesOf returns the names of Pods.
func namesOf(pods []*corev1.Pod) (names []string) {
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}

// Closed reports whether the Node waits for verification.
func (v Verification) Closed() bool { return len(v.Taints) > 0 }

// Waits reports whether the Node is closed or is to be checked again. It also waits if it has a taint that the policy names no more.
func (v Verification) Waits() bool {
	return v.Closed() || v.Cause == verify.CauseKeyChanged || v.Cause == verify.CauseRecheck
}

// Fails reports whether the Node takes workloads although its last attempt did not pass: its profile only reports.
func (v Verification) Fails() bool { return v.State == verify.StateFailing }

// NeedsController reports whether a controller is to act on the Node.
func (v Verification) NeedsController() bool { return v.Waits() || v.Fails() }

// lastText returns how the last attempt ended, in a few words.
func lastText(last *verify.Last, now time.Time) string {
	if last == nil {
		return ""
	}
	result := map[verify.Verdict]string{
		verify.VerdictInconclusive: "no result", verify.VerdictShared: "failed as on verified Nodes", verify.VerdictNotSelected: "opened without checks",
		verify.VerdictRemoved: "opened", verify.VerdictRebooted: "not checked after a reboot",
	}[last.Result]
	if last.Message == verify.ReportedBefore { // it was open all the time
		result = "no longer checked"
	}
	text := fmt.Sprintf("%s %s ago", cmp.Or(result, string(last.Result)), age(last.Time, now))
	if last.Check != "" {
		text += ": check " + last.Check
	}
	if last.Reason != "" {
		text += " (" + last.Reason + ")"
	}
	if last.Message != "" {
		text += ": " + last.Message
	}
	if len(last.Skipped) > 0 {
		text += "; left out at a cold start: " + strings.Join(last.Skipped, ", ")
	}
	return text
}

// attempts returns "2 of 5"; nothing for an open Node.
func (v Verification) attempts() string {
	if !v.Closed() || v.MaxAttempts == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", v.Attempts, v.MaxAttempts)
}

// attemptsInWords returns "2 have failed; stuck from 5 on"; nothing for an open Node.
func (v Verification) attemptsInWords() string {
	if v.attempts() == "" {
		return ""
	}
	return fmt.Sprintf("%d have failed; stuck from %d on", v.Attempts, v.MaxAttempts)
}

// check returns the check that failed in the last attempt, of a Node that did not pass it.
func (v Verification) check() string {
	if v.Last == nil || v.State == verify.StateOpen || v.State == StateVerified {
		return ""
	}
	return v.Last.Check
}

// next returns when the next attempt starts at the earliest.
func (v Verification) next(now time.Time) string {
	switch {
	case v.Next.IsZero():
		return ""
	case v.Next.After(now):
		return "in " + age(now, v.Next)
	default:
		return "due"
	}
}

// deadline shows the deadline and what happens then.
func (v Verification) deadline(now time.Time) string {
	if v.Due.IsZero() {
		return ""
	}
	outcome := "the taint stays, and attempts go on"
	if v.OnTimeout == string(verify.Release) {
		outcome = "the taint is removed although the Node is not verified"
	}
	if v.Due.Before(now) {
		return "passed " + age(v.Due, now) + " ago; " + outcome
	}
	return "in " + age(now, v.Due) + "; " + outcome
}

// VerificationList is where Nodes stand.
type VerificationList struct {
	Items    []Verification    `json:"items"`
	Removals *Removals         `json:"removals,omitempty"` // nil: no profile removes Nodes, or they are not known
	Unproved []impact.Unproved `json:"unproved,omitempty"` // profiles whose checks have not passed yet
}

// Names returns the names of the Nodes.
func (l VerificationList) Names() (names []string) {
	for _, v := range l.Items {
		names = append(names, v.Name)
	}
	return names
}

// Document returns the answer as text.
func (l VerificationList) Document(now time.Time) Document {
	columns := []string{"Name", "State", "Profile", "Age", "Attempts", "Check", "Next", "Why", "+Last", "+Taint"}
	removals := slices.ContainsFunc(l.Items, func(v Verification) bool { return v.removal(now) != "" })
	if removals {
		columns = slices.Insert(columns, 8, "Removal")
	}
	table := tableOf(columns...)
	for _, v := range l.Items {
		cells := []any{v.Name, string(v.State), orDash(v.Profile), age(v.Created, now), v.attempts(), v.check(), v.next(now), orDash(v.Reason), orDash(lastText(v.Last, now)), orDash(strings.Join(v.Taints, ","))}
		if removals {
			cells = slices.Insert(cells, 8, any(v.removal(now)))
		}
		addRow(table, cells...)
	}
	return Document{Tables: []*metav1.Table{table}}
}

// NodeVerification is all that is known about the verification of one Node, which may be deleted.
type NodeVerification struct {
	Node         string        `json:"node"`
	UID          string        `json:"uid,omitempty"`          // of the Node; empty: there is none
	Verification *Verification `json:"verification,omitempty"` // nil: there is no such Node
	// Report is the last attempt that did not pass. It may be of an earlier Node of that name.
	Report *verify.SavedReport `json:"report,omitempty"`
	// Removals are those of Nodes of this name within 24 hours: of this Node, or of an earlier one.
	Removals []verify.Removal `json:"removals,omitempty"`
}

// Document returns the answer as text.
func (v NodeVerification) Document(now time.Time) Document {
	var d Document
	d.addFact("Node", v.Node)
	if verification := v.Verification; verification != nil {
		d.addFact("State", string(verification.State))
		d.addFact("Why", verification.Reason)
		d.addFact("Profile", verification.Profile)
		d.addFact("Taint", strings.Join(verification.Taints, ", "))
		d.addFact("Age", age(verification.Created, now))
		d.addFact("Attempts", verification.attemptsInWords())
		d.addFact("Deadline", verification.deadline(now))
		d.addFact("Mode", verification.mode())
		if verification.Closed() {
			d.addFact("Next attempt", verification.next(now))
		} else {
			d.addFact("Next check", verification.next(now))
		}
		d.addFact("Worker Pod", strings.Join(verification.Workers, ", "))
		d.addFact("Last", lastText(verification.Last, now))
		d.addFact("Passed", verification.Passed.text())
		d.addFact("On failure", verification.onFailure())
		d.addFact("Removal", verification.removal(now))
	} else {
		d.addFact("State", "the Node is deleted")
	}
	d.addFact("Removed", v.removed(now))
	if v.Report == nil {
		return d
	}
	d.addFact("Last report", v.reported(now))
	table := tableOf("Check", "Outcome", "Required", "Reason", "Message", "Took", "+Tries")
	for _, result := range v.Report.Results {
		took := (time.Duration(result.Millis) * time.Millisecond).String()
		addRow(table, result.Check, string(result.Outcome), yesNo(result.Required), orDash(string(result.Reason)), orDash(result.Message), took, result.Tries)
	}
	d.Tables = append(d.Tables, table)
	return d
}

// reported shows the attempt of the report.
func (v NodeVerification) reported(now time.Time) string {
	r := v.Report
	text := fmt.Sprintf("%s %s ago, attempt %d, profile %s", r.Result, age(r.Time, now), r.Attempt, r.Profile)
	if v.UID != "" && r.UID != v.UID {
		text += ", of an earlier Node of this name"
	}
	if r.Check != "" {
		text += ": check " + r.Check
	}
	if r.Message != "" {
		text += ": " + r.Message
	}
	return text
}

// UnverifiedText marks a Node that waits for verification in views about other things. It is empty if the Node does not wait.
func UnverifiedText(node *corev1.Node, p policy.Policy) string {
	if node == nil {
		return ""
	}
	held := p.Verify().ClosingTaints(node.Spec.Taints)
	if len(held) == 0 {
		return ""
	}
	return fmt.Sprintf("it is not verified yet (%s): nodekeep show %s --verification", listOf(taintItems(held)), node.Name)
}
