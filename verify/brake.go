package verify

import "time"

// Brake is why no Node is removed at the moment. It holds removals only, never checks, and closes by itself.
type Brake struct {
	Reason BrakeReason `json:"reason"`
	Until  time.Time   `json:"until,omitzero"` // zero: until something is observed
	// Message is for people: the Pod, the object or the error that holds the removal; empty where the reason says it all.
	Message string `json:"message,omitempty"`
}

// BrakeReason says which brake is open.
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

// BrakeReasons are all reasons.
func BrakeReasons() []BrakeReason {
	return []BrakeReason{
		BrakeSharedFailure, BrakeNoControl, BrakeTooMany, BrakeBudget, BrakeCooldown, BrakeSameNode, BrakePods, BrakeRefused, BrakeLedger, BrakeAPIError,
	}
}
