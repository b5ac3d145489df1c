package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/verify"
)

// Removals are the removals of Nodes that failed their checks, in the whole cluster.
type Removals struct {
	Lately []verify.Removal `json:"lately"`          // of about 24 hours, the newest first
	Brake  *verify.Brake    `json:"brake,omitempty"` // holds the removal of every Node at the moment; nil: none does
}

// RemovalsOf says what was removed lately, and whether the limits of the policy hold every removal now. nodes are how many Nodes profiles select.
func RemovalsOf(ledger verify.Ledger, profiles verify.Profiles, nodes int, now time.Time) Removals {
	removals := Removals{Lately: slices.Clone(ledger.Removals)}
	if removals.Lately == nil {
		removals.Lately = []verify.Removal{}
	}
	slices.SortFunc(removals.Lately, func(a, b verify.Removal) int { return b.Time.Compare(a.Time) })
	if brake, fits := ledger.Fits(verify.Removal{}, profiles.Limits, nodes, now); !fits { // of a Node that was never removed
		removals.Brake = &brake
	}
	return removals
}

// Removes reports whether a profile removes Nodes.
func Removes(profiles verify.Profiles) bool {
	return slices.ContainsFunc(profiles.All(), func(profile verify.CompiledProfile) bool { return profile.OnFailure != verify.KeepNode })
}

// Lines say this to operators, in as many lines as there is something to say.
func (r Removals) Lines(now time.Time) (lines []string) {
	if r.Brake != nil {
		lines = append(lines, "No Node is removed now: "+brakeText(*r.Brake, now)+".")
	}
	if len(r.Lately) > 0 {
		line := "Removed lately: " + removalText(r.Lately[0], now)
		if more := len(r.Lately) - 1; more > 0 {
			line += fmt.Sprintf("; %d more within 24 hours", more)
		}
		lines = append(lines, line+".")
	}
	return lines
}

// removalText says which Node was removed, how and when.
func removalText(r verify.Removal, now time.Time) string {
	return r.Node + " " + howRemoved(r, now)
}

// howRemoved says how a Node was removed and when, or that it is still to be.
func howRemoved(r verify.Removal, now time.Time) string {
	text := fmt.Sprintf("by %s %s ago, profile %s", r.Kind, ago(r.Time, now), r.Profile)
	if !r.Done {
		text += " (decided, not known to be done)"
	}
	return text
}

// brakeText is a brake, what it says of itself or else what it means, and how long it stays open if that is known.
func brakeText(brake verify.Brake, now time.Time) string {
	text := string(brake.Reason)
	if brake.Until.After(now) {
		text += " for another " + ago(now, brake.Until)
	}
	return text + ": " + cmp.Or(brake.Message, brakeMeans(brake.Reason))
}

// brakeMeans says why a brake is open.
func brakeMeans(reason verify.BrakeReason) string {
	switch reason {
	case verify.BrakeSharedFailure:
		return "a verified Node fails the same check"
	case verify.BrakeNoControl:
		return "no verified Node has passed the same check"
	case verify.BrakeTooMany:
		return "more Nodes of the profile fail than limits.stopAbove allows"
	case verify.BrakeBudget:
		return "the removals of the hour are used up"
	case verify.BrakeCooldown:
		return "the pause after the last removal"
	case verify.BrakeSameNode:
		return "a Node of this name was removed within 24 hours"
	case verify.BrakePods:
		return "Pods run on the Node that are not of a DaemonSet"
	case verify.BrakeRefused:
		return "no object was confirmed to stand for the Node"
	case verify.BrakeLedger:
		return "the removals of before cannot be read, or have no more room"
	case verify.BrakeAPIError:
		return "the API server does not answer, or does not allow what is needed"
	}
	return "for a reason that this version does not know"
}

// removal says whether nodekeep removes the Node, or why it does not at the moment; empty: there is nothing to say.
func (v Verification) removal(now time.Time) string {
	switch {
	case v.Removing != "":
		return "under way, by " + string(v.Removing)
	case v.RemovalHeld != nil:
		return "held: " + brakeText(*v.RemovalHeld, now)
	}
	return ""
}

// onFailure says what happens when the last attempt fails.
func (v Verification) onFailure() string {
	if v.OnFailure == "" {
		return ""
	}
	return fmt.Sprintf("removed by %s after %d failed attempts", v.OnFailure, v.MaxAttempts)
}

// removed says that this Node, or one of its name before, was removed; empty: none was within 24 hours.
func (v VerifiedNode) removed(now time.Time) string {
	var texts []string
	for _, one := range v.Removals {
		text := howRemoved(one, now)
		if v.UID != "" && one.UID != v.UID {
			text += ", an earlier Node of this name"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}
