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
	Recent []verify.Removal `json:"lately"`          // of about 24 hours, the newest first
	Brake  *verify.Brake    `json:"brake,omitempty"` // holds the removal of every Node at the moment; nil: none does
	// Profiles are the brakes that hold the removal of every Node of one profile at the moment.
	Profiles []ProfileBrake `json:"profiles,omitempty"`
}

// ProfileBrake is a brake of one profile.
type ProfileBrake struct {
	Profile string       `json:"profile"`
	Brake   verify.Brake `json:"brake"`
}

// RemovalsOf shows recent removals, and whether the limits of the policy now hold every removal. The number of Nodes that profiles select is nodes.
func RemovalsOf(ledger verify.Ledger, profiles verify.Profiles, nodes int, now time.Time) Removals {
	removals := Removals{Recent: slices.Clone(ledger.Removals)}
	if removals.Recent == nil {
		removals.Recent = []verify.Removal{}
	}
	slices.SortFunc(removals.Recent, func(a, b verify.Removal) int { return b.Time.Compare(a.Time) })
	removals.Brake = ledger.Holds(verify.Removal{}, profiles.Limits, nodes, now) // of a Node that was never removed
	for _, seen := range ledger.Brakes {
		if brake := seen.Brake(); brake.End.After(now) {
			removals.Profiles = append(removals.Profiles, ProfileBrake{seen.Profile, brake})
		}
	}
	return removals
}

// Lines say this to operators, in as many lines as there is something to say.
func (r Removals) Lines(now time.Time) (lines []string) {
	if r.Brake != nil {
		lines = append(lines, "No Node is removed now: "+brakeText(*r.Brake, now)+".")
	}
	for _, brake := range r.Profiles {
		lines = append(lines, fmt.Sprintf("No Node of profile %s is removed now: %s.", brake.Profile, brakeText(brake.Brake, now)))
	}
	if len(r.Recent) > 0 {
		line := "Removed lately: " + r.Recent[0].Node + " " + removalText(r.Recent[0], now)
		if omitted := len(r.Recent) - 1; omitted > 0 {
			line += fmt.Sprintf("; %d more within 24 hours", omitted)
		}
		lines = append(lines, line+".")
	}
	return lines
}

// removalText reports how a Node was removed and when, or that it is still to be.
func removalText(r verify.Removal, now time.Time) string {
	text := fmt.Sprintf("by %s %s ago, profile %s", r.Kind, age(r.Time, now), r.Profile)
	if !r.Done {
		text += " (decided, not known to be done)"
	}
	return text
}

// brakeText describes a brake by its own message or by the meaning of its reason. It adds how long the brake lasts, if that is known.
func brakeText(brake verify.Brake, now time.Time) string {
	text := string(brake.Reason)
	if brake.End.After(now) {
		text += " for another " + age(now, brake.End)
	}
	return text + ": " + cmp.Or(brake.Message, brake.Reason.Means())
}

// removal shows whether nodekeep removes the Node, or why it does not at the moment. It is empty if neither applies.
func (v Verification) removal(now time.Time) string {
	switch {
	case v.Removing != "":
		return "under way, by " + string(v.Removing)
	case v.RemovalHeld != nil:
		return "held: " + brakeText(*v.RemovalHeld, now)
	}
	return ""
}

// onFailure explains what happens when the last attempt fails.
func (v Verification) onFailure() string {
	if v.OnFailure == "" {
		return ""
	}
	return fmt.Sprintf("removed by %s after %d failed attempts", v.OnFailure, v.MaxAttempts)
}

// removed shows that this Node, or an earlier one of its name, was removed; empty: none within 24 hours.
func (v NodeVerification) removed(now time.Time) string {
	var texts []string
	for _, removal := range v.Removals {
		text := removalText(removal, now)
		if v.UID != "" && removal.UID != v.UID {
			text += ", an earlier Node of this name"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}
