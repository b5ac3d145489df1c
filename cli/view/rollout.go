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

// Rollout takes open Nodes into verification, a few at a time. It is a decision about the state of all Nodes at one time.
type Rollout struct {
	Nodes  []RolloutNode // that a profile and the selector of the command select, by name
	Takers int           // Nodes of the cluster on which ordinary Pods can run
	Now    time.Time
}

// RolloutNode is a Node that may be taken.
type RolloutNode struct {
	Verification
	UID       string
	Round     int
	Verified  bool // it is open, and passed what the profile asks now
	Fails     bool // it is closed, and an attempt did not pass
	Takes     bool // ordinary Pods can run on it
	Unfit     bool // it cannot be checked now
	NoExecute bool // its taint would evict Pods
}

// Taken is a Node that the command has closed.
type Taken struct {
	Name, UID string
	Round     int // how often it was opened before
}

// RolloutOf returns the state of these Nodes.
func RolloutOf(nodes []*corev1.Node, selector labels.Selector, p policy.Policy, now time.Time) Rollout {
	r := Rollout{Now: now}
	for _, node := range nodes {
		of := verify.NodeOf(node)
		takes := verify.TakesWorkloads(of.Ready, node.Spec.Unschedulable, node.Spec.Taints)
		if takes {
			r.Takers++
		}
		profile, selected := p.Verify().For(node.Labels)
		if !selected || profile.Reports() || !selector.Matches(labels.Set(node.Labels)) { // a Node that is only reported is never closed
			continue
		}
		progress := verify.ParseProgress(of.Annotation)
		one := RolloutNode{
			Verification: VerificationOf(node, nil, nil, p, now), UID: of.UID, Round: progress.Round, Fails: p.Verify().Fails(&of), Takes: takes,
			NoExecute: profile.Taint.Effect == corev1.TaintEffectNoExecute,
		}
		one.Verified = one.State == StateVerified && progress.Hash == profile.Hash && node.Labels[p.Verify().Label] == "true"
		one.Unfit = of.Deleting || !of.Ready || verify.Incomplete(node.Spec.Taints, string(p.Gate())) != ""
		r.Nodes = append(r.Nodes, one)
	}
	slices.SortFunc(r.Nodes, func(a, b RolloutNode) int { return cmp.Compare(a.Name, b.Name) })
	return r
}

// Most returns how many Nodes --max lets be closed at one time: rounded down, and one at least.
func (r Rollout) Most(most intstr.IntOrString) int {
	count, err := intstr.GetScaledValueFromIntOrPercent(&most, len(r.Nodes), false)
	if err != nil {
		return 1 // it was checked
	}
	return max(1, count)
}

// Due returns the open Nodes that are to be checked, without those that were taken. Nodes whose last check did not pass are the last.
func (r Rollout) Due(again bool, taken []Taken) (due []RolloutNode) {
	for _, one := range r.Nodes {
		was := slices.ContainsFunc(taken, func(t Taken) bool { return t.UID == one.UID })
		if !one.Closed() && !one.Unfit && !was && (again || !one.Verified) {
			due = append(due, one)
		}
	}
	slices.SortStableFunc(due, func(a, b RolloutNode) int { return cmp.Compare(a.rank(), b.rank()) })
	return due
}

func (n RolloutNode) rank() int {
	if n.Last == nil || n.Last.Result == verify.VerdictPassed {
		return 0
	}
	return 1
}

// RolloutStep is what is next.
type RolloutStep struct {
	Close    []RolloutNode
	Verified int    // of the Nodes that were taken
	InFlight int    // of the Nodes that were taken
	Waiting  string // for what, if there is nothing to close
	Stop     string // why it cannot go on
	Over     bool
}

// Next decides what is next. Never more than most Nodes are closed, and one that takes Pods stays open.
func (r Rollout) Next(most int, again bool, taken []Taken) (step RolloutStep) {
	by := map[string]RolloutNode{}
	closed, stays, waits := 0, r.Takers-1, []RolloutNode{}
	for _, one := range r.Nodes {
		by[one.UID] = one
		if one.Closed() {
			closed++
			waits = append(waits, one)
		}
	}
	for _, t := range taken {
		now, ok := by[t.UID]
		switch {
		case !ok: // it was deleted, or no profile selects it any more
		case now.Closed():
			step.InFlight++
			if now.Fails {
				step.Stop = cmp.Or(step.Stop, fmt.Sprintf("node/%s did not pass: %s", t.Name, lastText(now.Last, r.Now)))
			}
		case now.Round > t.Round && now.Last != nil && now.Last.Result == verify.VerdictPassed:
			step.Verified++
		case now.Round > t.Round:
			step.Stop = cmp.Or(step.Stop, fmt.Sprintf("node/%s was opened without passing: %s", t.Name, lastText(now.Last, r.Now)))
		default:
			step.Stop = cmp.Or(step.Stop, fmt.Sprintf("node/%s was opened without passing: another client removed the taint", t.Name))
		}
	}
	due := r.Due(again, taken)
	if step.Stop != "" {
		return step
	}
	var last string
	for _, one := range due {
		switch {
		case closed >= most:
			continue
		case one.Takes && stays < 1:
			last = one.Name
			continue
		case one.Takes:
			stays--
		}
		closed++
		step.Close = append(step.Close, one)
	}
	hopeless := !slices.ContainsFunc(waits, func(one RolloutNode) bool { return !one.Fails })
	switch {
	case len(step.Close) > 0:
	case len(due) == 0:
		step.Over = step.InFlight == 0
	case step.InFlight > 0:
	case last != "" && hopeless:
		step.Stop = fmt.Sprintf("node/%[1]s is the last Node that takes Pods, so it stays open; nodekeep verify run %[1]s checks it all the same", last)
	case last == "" && hopeless:
		step.Stop = fmt.Sprintf("as many Nodes are closed already as --max lets, and node/%s did not pass: %s", waits[0].Name, lastText(waits[0].Last, r.Now))
	}
	if len(waits) > 0 {
		step.Waiting = fmt.Sprintf("%s: %s", waits[0].Name, waits[0].Why)
		if more := len(waits) - 1; more > 0 {
			step.Waiting += fmt.Sprintf("; and %d more", more)
		}
	}
	return step
}

// Summary returns the plan in a sentence.
func (r Rollout) Summary(most int, again bool) string {
	verified, closed, unfit := 0, 0, []string{}
	for _, one := range r.Nodes {
		switch {
		case one.Closed():
			closed++
		case one.Unfit:
			unfit = append(unfit, one.Name)
		case one.Verified && !again:
			verified++
		}
	}
	parts := []string{fmt.Sprintf("%s, %d to be checked, at most %d closed at one time", Counted(len(r.Nodes), "Node"), len(r.Due(again, nil)), most)}
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

// Question asks for the whole of it.
func (r Rollout) Question(again bool) string {
	due := r.Due(again, nil)
	means := "Pods on these Nodes stay; while a Node is closed, no others are scheduled onto it."
	if slices.ContainsFunc(due, func(one RolloutNode) bool { return one.NoExecute }) {
		means = "The effect NoExecute evicts the Pods of Nodes that are closed, but for those that tolerate the taint."
	}
	return fmt.Sprintf("%s\nCheck %s?", means, Counted(len(due), "Node"))
}

// Table lists the Nodes that are to be checked, and of many only the first ones (0: all).
func (r Rollout) Table(again bool, first int) *metav1.Table {
	table := tableOf("Name", "State", "Profile", "Last")
	for i, one := range r.Due(again, nil) {
		if first > 0 && i == first {
			break
		}
		add(table, one.Name, string(one.State), one.Profile, orNone(lastText(one.Last, r.Now)))
	}
	return table
}
