package nodestate

import "nodekeep.dev/nodekeep/plan"

// Presence shows whether there is a Node, and a record of it.
type Presence string

// The presences.
const (
	Present    Presence = "Present"    // a Node, and a record of it unless nothing of the Node is kept
	Unrecorded Presence = "Unrecorded" // a Node without a record, of which something is to be recorded
	Gone       Presence = "Gone"       // a record of a deleted Node
	Unreadable Presence = "Unreadable" // a record from which nothing may be taken
	Forgotten  Presence = "Forgotten"  // neither any more
)

// Presence returns whether there is a Node, and a record of it.
func (s State) Presence(inputs plan.Inputs) Presence {
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
