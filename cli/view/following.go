package view

import (
	"fmt"
	"strings"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/record"
)

// maxNamed is how many Nodes are named that share the identity of a machine.
const maxNamed = 10

// ExplainedFollow is what a Node without a record gets of another name of its machine.
type ExplainedFollow struct {
	Node   string   `json:"node,omitempty"`   // whose record it begins with; empty: none
	Why    string   `json:"why"`              // that one, or none
	Waits  []string `json:"waits,omitempty"`  // labels that wait for an operator
	Taints []string `json:"taints,omitempty"` // that it begins with, where it may be one of several machines

	unknown bool
}

// MayFollow reports whether a Node begins with a record of another name, if there is one of its machine.
func (s NodeState) MayFollow(in plan.Circumstances) bool {
	return in.Policy.Follows() && s.Record == nil && s.Unreadable == nil
}

// Following returns the state with the record that the Node begins with on a machine, of all the others.
func (s NodeState) Following(machine record.Machine, others []record.Record, in plan.Circumstances) NodeState {
	others = in.Policy.Keeping(in.Now).WithEarlier(others)
	old, found, several := record.Predecessor(s.Name, machine, others)
	tainted, of := record.Tainted(s.Name, machine, others)
	switch {
	case found:
		r := observe.Follow(old, s.Name, machine, in.Now)
		s.followed, s.Follows = &r, &ExplainedFollow{Node: old.Node, Why: "this machine was that Node before, and no other record is of this machine"}
		if r.Quarantined != nil {
			s.Follows.Waits = sortedItems(r.Quarantined.Items())
		}
	case len(machine.Identifiers()) == 0:
		s.Follows = &ExplainedFollow{Why: "the Node reports no providerID, systemUUID or machineID that identifies one machine"}
	case len(several) == 0 && len(of) > 0:
		s.Follows = &ExplainedFollow{Why: "a Node that exists has followed the record of node " + of[0]}
	case len(several) == 0:
		s.Follows = &ExplainedFollow{Why: "no other record is of this machine"}
	case len(several) == 1:
		s.Follows = &ExplainedFollow{Why: "node " + several[0] + " has the identity of this machine, and its record does not say that it is deleted, or waits for nodekeep accept"}
	default:
		named := strings.Join(several[:min(len(several), maxNamed)], ", ")
		s.Follows = &ExplainedFollow{Why: fmt.Sprintf("the records of %d Nodes are of this machine, as with cloned images: %s", len(several), named)}
	}
	if !found && len(of) > 0 {
		s.followed, s.Follows.Taints = &tainted, sortedItems(tainted.Items())
	}
	return s
}

// FollowingUnknown returns the state where the other records could not be looked at.
func (s NodeState) FollowingUnknown(why string) NodeState {
	s.Follows = &ExplainedFollow{Why: "not known: " + why, unknown: true}
	return s
}

func (f *ExplainedFollow) text() string {
	switch {
	case f == nil:
		return ""
	case f.unknown:
		return f.Why
	case len(f.Taints) > 0:
		return "taints alone (" + strings.Join(f.Taints, ", ") + "): " + f.Why
	case f.Node == "":
		return "nothing: " + f.Why
	case len(f.Waits) == 0:
		return "the record of node " + f.Node + ": " + f.Why
	default:
		return "the record of node " + f.Node + ": " + f.Why + "; waits for nodekeep accept then: " + strings.Join(f.Waits, ", ")
	}
}
