package nodestate

import (
	"fmt"
	"strings"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/record"
)

// maxNamed is how many Nodes are named that share the identity of a machine.
const maxNamed = 10

// FollowDecision is what a Node without a record gets of another name of its machine.
type FollowDecision struct {
	Node   string   `json:"node,omitempty"`   // whose record it begins with; empty: none
	Reason string   `json:"why"`              // that one, or none
	Waits  []string `json:"waits,omitempty"`  // labels that wait for an operator
	Taints []string `json:"taints,omitempty"` // that it begins with, where it may be one of several machines

	Unknown bool `json:"-"` // the other records could not be looked at
}

// MayFollow reports whether a Node begins with a record of another name, if there is one of its machine.
func (s State) MayFollow(inputs plan.Inputs) bool {
	return inputs.Policy.Follows() && s.Record == nil && s.Unreadable == nil
}

// WithFollowed returns the state with the record that the Node begins with on a machine; rest are the records of all other Nodes.
func (s State) WithFollowed(machine record.Machine, rest []record.Record, inputs plan.Inputs) State {
	rest = inputs.Policy.EarlierRetention(inputs.Now).Flatten(rest)
	old, found, candidates := record.Predecessor(s.Name, machine, rest)
	tainted, names := record.TaintsOnlyOf(s.Name, machine, rest)
	switch {
	case found:
		r := observe.Follow(old, s.Name, machine, inputs.Now)
		s.registrationSource, s.FollowDecision = &r, &FollowDecision{Node: old.Node, Reason: "this machine was that Node before, and no other record is of this machine"}
		if r.Quarantined != nil {
			s.FollowDecision.Waits = SortedItems(r.Quarantined.Items())
		}
	case len(machine.Identifiers()) == 0:
		s.FollowDecision = &FollowDecision{Reason: "the Node reports no providerID, systemUUID or machineID that identifies one machine"}
	case len(candidates) == 0 && len(names) > 0:
		s.FollowDecision = &FollowDecision{Reason: "a Node that exists has followed the record of node " + names[0]}
	case len(candidates) == 0:
		s.FollowDecision = &FollowDecision{Reason: "no other record is of this machine"}
	case len(candidates) == 1:
		s.FollowDecision = &FollowDecision{Reason: "node " + candidates[0] + " has the identity of this machine, and its record does not say that it is deleted, or waits for nodekeep accept record"}
	default:
		named := strings.Join(candidates[:min(len(candidates), maxNamed)], ", ")
		s.FollowDecision = &FollowDecision{Reason: fmt.Sprintf("the records of %d Nodes are of this machine, as with cloned images: %s", len(candidates), named)}
	}
	if !found && len(names) > 0 {
		s.registrationSource, s.FollowDecision.Taints = &tainted, SortedItems(tainted.Items())
	}
	return s
}

// WithFollowedUnknown returns the state where the other records could not be looked at.
func (s State) WithFollowedUnknown(reason string) State {
	s.FollowDecision = &FollowDecision{Reason: "not known: " + reason, Unknown: true}
	return s
}
