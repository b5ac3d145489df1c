package verify

import (
	"fmt"
	"slices"
	"time"
)

// Brake is why no Node is removed at the moment. It holds removals only, never checks, and closes by itself. As with a circuit breaker, a brake
// that is open holds, and one that is closed does not.
type Brake struct {
	Reason BrakeReason `json:"reason"`
	End    time.Time   `json:"until,omitzero"` // zero: until something is observed
	// Message shows operators the Pod, the object or the error that holds the removal. It is empty if the reason is enough.
	Message string `json:"message,omitempty"`
}

// BrakeReason shows which brake is open.
type BrakeReason string

// The reasons of brakes.
const (
	BrakeSharedFailure BrakeReason = "SharedFailure" // a verified Node fails the same check
	BrakeNoControl     BrakeReason = "NoControl"     // no verified Node has passed the same check
	BrakeTooMany       BrakeReason = "TooMany"       // more Nodes of the profile than stopAbove fail
	BrakeBudget        BrakeReason = "Budget"        // the removals of the hour are used up
	BrakeCooldown      BrakeReason = "Cooldown"      // the pause after the last removal
	BrakeSameNode      BrakeReason = "SameNode"      // a Node of this name was removed within 24 hours
	BrakePods          BrakeReason = "Pods"          // Pods run on the Node that are not of a DaemonSet
	BrakeRefused       BrakeReason = "Refused"       // no object was confirmed to stand for the Node
	BrakeLedger        BrakeReason = "Ledger"        // the removals of before cannot be read, or have no more room
	BrakeAPIError      BrakeReason = "APIError"      // the API server does not answer, or does not allow what is needed
)

// BrakeReasons returns all reasons.
func BrakeReasons() []BrakeReason {
	return []BrakeReason{
		BrakeSharedFailure, BrakeNoControl, BrakeTooMany, BrakeBudget, BrakeCooldown, BrakeSameNode, BrakePods, BrakeRefused, BrakeLedger, BrakeAPIError,
	}
}

// Shared reports whether a brake concerns many Nodes at once: one Event reports it.
func (r BrakeReason) Shared() bool {
	return !slices.Contains([]BrakeReason{BrakeSameNode, BrakePods, BrakeRefused}, r)
}

// Kept reports whether the ledger keeps when a brake was seen. Others are read off the removals, or concern one Node.
func (r BrakeReason) Kept() bool { return r == BrakeSharedFailure || r == BrakeTooMany }

// BrakeOf returns a brake with a message, which may be long.
func BrakeOf(reason BrakeReason, message string) *Brake {
	return &Brake{Reason: reason, Message: Shorten(message)}
}

// Means explains why a Node is not removed.
func (r BrakeReason) Means() string {
	return map[BrakeReason]string{
		BrakeSharedFailure: "verified Nodes fail the same check",
		BrakeNoControl:     "that verified Nodes pass the same check is not known",
		BrakeTooMany:       "more Nodes of the profile fail, or were removed within 24 hours, than verify.limits.stopAbove lets",
		BrakeBudget:        "the removals of this hour are used up (verify.limits.deletionsPerHour, or one Node in ten)",
		BrakeCooldown:      "another Node was removed shortly before",
		BrakeSameNode:      "a Node of this name was removed within 24 hours",
		BrakePods:          "a Pod runs on it that is not of a DaemonSet",
		BrakeRefused:       "no object was confirmed to stand for it",
		BrakeLedger:        "which Nodes were removed before cannot be read or written",
		BrakeAPIError:      "the API server did not answer, or did not allow it",
	}[r]
}

// String says in a sentence why a Node is not removed.
func (b Brake) String() string {
	reason := b.Reason.Means()
	if b.Message != "" {
		reason += ": " + b.Message
	}
	if !b.End.IsZero() {
		reason += fmt.Sprintf(", until %s", b.End.UTC().Format(time.RFC3339))
	}
	return reason
}
