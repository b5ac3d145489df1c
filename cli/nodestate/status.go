package nodestate

import "nodekeep.dev/nodekeep/plan"

// Status shows whether there is a Node, and a record of it.
type Status string

// The statuses.
const (
	Present    Status = "Present"    // a Node, and a record of it unless nothing of the Node is kept
	Unrecorded Status = "Unrecorded" // a Node without a record, of which something is to be recorded
	Gone       Status = "Gone"       // a record of a deleted Node
	Unreadable Status = "Unreadable" // a record from which nothing may be taken
	Forgotten  Status = "Forgotten"  // neither any more
)

// Status returns whether there is a Node, and a record of it.
func (s State) Status(inputs plan.Inputs) Status {
	switch {
	case s.Unreadable != nil:
		return Unreadable
	case s.Record == nil && s.Node == nil:
		return Forgotten
	case s.Record == nil && s.NextRecord(inputs) != nil:
		return Unrecorded
	case s.Node == nil:
		return Gone
	default:
		return Present
	}
}
