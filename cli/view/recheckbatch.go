package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/verify"
)

// RecheckState takes open Nodes into verification, a few at a time. It is a decision about the state of all Nodes at one time.
type RecheckState struct {
	Nodes            []RecheckNode // that a profile and the selector of the command select, by name
	SchedulableNodes int           // Nodes of the cluster on which ordinary Pods can run
	Now              time.Time
}

// RecheckNode is a Node that may be taken.
type RecheckNode struct {
	Verification
	UID           string
	Round         int
	Verified      bool // it is open, and passed what the profile asks now
	AttemptFailed bool // it is closed, and an attempt did not pass
	TakesPods     bool // ordinary Pods can run on it
	Uncheckable   bool // it cannot be checked now
	NoExecute     bool // its taint would evict Pods
}

// ClosedNode is a Node that the command has closed.
type ClosedNode struct {
	Name, UID string
	Round     int // how often it was opened before
}

// RecheckStateOf returns the state of these Nodes.
func RecheckStateOf(nodes []*corev1.Node, selector labels.Selector, p policy.Policy, now time.Time) RecheckState {
	r := RecheckState{Now: now}
	for _, node := range nodes {
		verifyNode := verify.NodeOf(node)
		takes := verify.TakesWorkloads(verifyNode.Ready, node.Spec.Unschedulable, node.Spec.Taints)
		if takes {
			r.SchedulableNodes++
		}
		profile, selected := p.Verify().Match(node.Labels)
		if !selected || profile.ReportsOnly() || !selector.Matches(labels.Set(node.Labels)) { // a Node that is only reported is never closed
			continue
		}
		progress := verify.ParseProgress(verifyNode.Annotation)
		candidate := RecheckNode{
			Verification: VerificationOf(node, nil, nil, p, now), UID: verifyNode.UID, Round: progress.Round, AttemptFailed: p.Verify().Fails(&verifyNode), TakesPods: takes,
			NoExecute: profile.Taint.Effect == corev1.TaintEffectNoExecute,
		}
		candidate.Verified = candidate.State == StateVerified && progress.Hash == profile.Hash && node.Labels[p.Verify().Label] == "true"
		candidate.Uncheckable = verifyNode.Deleting || !verifyNode.Ready || verify.Incomplete(node.Spec.Taints, string(p.Gate())) != ""
		r.Nodes = append(r.Nodes, candidate)
	}
	slices.SortFunc(r.Nodes, func(a, b RecheckNode) int { return cmp.Compare(a.Name, b.Name) })
	return r
}

// Limit returns how many Nodes --max lets be closed at one time: rounded down, and one at least.
func (r RecheckState) Limit(maximum intstr.IntOrString) int {
	count, err := intstr.GetScaledValueFromIntOrPercent(&maximum, len(r.Nodes), false)
	if err != nil {
		return 1 // it was checked
	}
	return max(1, count)
}

// Due returns the open Nodes that are to be checked, without those that were taken. Nodes whose last check did not pass are the last.
func (r RecheckState) Due(includeVerified bool, taken []ClosedNode) (due []RecheckNode) {
	for _, node := range r.Nodes {
		done := slices.ContainsFunc(taken, func(t ClosedNode) bool { return t.UID == node.UID })
		if !node.Closed() && !node.Uncheckable && !done && (includeVerified || !node.Verified) {
			due = append(due, node)
		}
	}
	slices.SortStableFunc(due, func(a, b RecheckNode) int { return cmp.Compare(a.rank(), b.rank()) })
	return due
}

func (n RecheckNode) rank() int {
	if n.Last == nil || n.Last.Result == verify.VerdictPassed {
		return 0
	}
	return 1
}

// RecheckStep is what is next.
type RecheckStep struct {
	Close    []RecheckNode
	Verified int    // of the Nodes that were taken
	InFlight int    // of the Nodes that were taken
	Waiting  string // for what, if there is nothing to close
	Stop     string // why it cannot go on
	Ended    bool
}

// Next decides what is next. Never more than limit Nodes are closed, and one that takes Pods stays open.
func (r RecheckState) Next(limit int, includeVerified bool, taken []ClosedNode) (step RecheckStep) {
	byUID := map[string]RecheckNode{}
	closed, closable, waits := 0, r.SchedulableNodes-1, []RecheckNode{}
	for _, node := range r.Nodes {
		byUID[node.UID] = node
		if node.Closed() {
			closed++
			waits = append(waits, node)
		}
	}
	for _, t := range taken {
		current, ok := byUID[t.UID]
		switch {
		case !ok: // it was deleted, or no profile selects it any more
		case current.Closed():
			step.InFlight++
			if current.AttemptFailed {
				step.Stop = cmp.Or(step.Stop, fmt.Sprintf("node/%s did not pass: %s", t.Name, lastText(current.Last, r.Now)))
			}
		case current.Round > t.Round && current.Last != nil && current.Last.Result == verify.VerdictPassed:
			step.Verified++
		case current.Round > t.Round:
			step.Stop = cmp.Or(step.Stop, fmt.Sprintf("node/%s was opened without passing: %s", t.Name, lastText(current.Last, r.Now)))
		default:
			step.Stop = cmp.Or(step.Stop, fmt.Sprintf("node/%s was opened without passing: another client removed the taint", t.Name))
		}
	}
	due := r.Due(includeVerified, taken)
	if step.Stop != "" {
		return step
	}
	var last string
	for _, node := range due {
		switch {
		case closed >= limit:
			continue
		case node.TakesPods && closable < 1:
			last = node.Name
			continue
		case node.TakesPods:
			closable--
		}
		closed++
		step.Close = append(step.Close, node)
	}
	allFailed := !slices.ContainsFunc(waits, func(node RecheckNode) bool { return !node.AttemptFailed })
	switch {
	case len(step.Close) > 0:
	case len(due) == 0:
		step.Ended = step.InFlight == 0
	case step.InFlight > 0:
	case last != "" && allFailed:
		step.Stop = fmt.Sprintf("node/%[1]s is the last Node that takes Pods, so it stays open; nodekeep recheck %[1]s checks it all the same", last)
	case last == "" && allFailed:
		step.Stop = fmt.Sprintf("as many Nodes are closed already as --max lets, and node/%s did not pass: %s", waits[0].Name, lastText(waits[0].Last, r.Now))
	}
	if len(waits) > 0 {
		step.Waiting = fmt.Sprintf("%s: %s", waits[0].Name, waits[0].Reason)
		if omitted := len(waits) - 1; omitted > 0 {
			step.Waiting += fmt.Sprintf("; and %d more", omitted)
		}
	}
	return step
}

// Summary returns the plan in a sentence.
func (r RecheckState) Summary(limit int, includeVerified bool) string {
	verified, closed, unfit := 0, 0, []string{}
	for _, node := range r.Nodes {
		switch {
		case node.Closed():
			closed++
		case node.Uncheckable:
			unfit = append(unfit, node.Name)
		case node.Verified && !includeVerified:
			verified++
		}
	}
	parts := []string{fmt.Sprintf("%s, %d to be checked, at most %d closed at one time", Counted(len(r.Nodes), "Node"), len(r.Due(includeVerified, nil)), limit)}
	if verified > 0 {
		parts = append(parts, fmt.Sprintf("%d passed these checks before (--again checks them, too)", verified))
	}
	if closed > 0 {
		parts = append(parts, fmt.Sprintf("%d closed already", closed))
	}
	if len(unfit) > 0 {
		parts = append(parts, fmt.Sprintf("%d left out, since they are not Ready or not complete: %s", len(unfit), strings.Join(unfit, ", ")))
	}
	return strings.Join(parts, "; ")
}

// PodsSentence says what becomes of the Pods on these Nodes.
func (r RecheckState) PodsSentence(includeVerified bool) string {
	if slices.ContainsFunc(r.Due(includeVerified, nil), func(node RecheckNode) bool { return node.NoExecute }) {
		return "The effect NoExecute evicts the Pods of Nodes that are closed, but for those that tolerate the taint."
	}
	return "Pods on these Nodes stay; while a Node is closed, no others are scheduled onto it."
}

// Table lists the Nodes that are to be checked.
func (r RecheckState) Table(includeVerified bool) *metav1.Table {
	table := tableOf("Name", "State", "Profile", "Last")
	for _, node := range r.Due(includeVerified, nil) {
		addRow(table, node.Name, string(node.State), node.Profile, orDash(lastText(node.Last, r.Now)))
	}
	return table
}
