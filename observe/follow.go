package observe

import (
	"time"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// maxShownNode leaves room for the word before it in the name of an actor.
const maxShownNode = 100

// Follow is the first record of a Node whose machine had another name before; see [record.Follow]. Its history begins with that.
func Follow(old record.Record, node string, machine record.Machine, now time.Time) record.Record {
	r := record.Follow(old, node, machine, policy.FollowsOnlyAccepted)
	cause := causeAt("followed "+policy.Shortened(old.Node, maxShownNode), now)
	return history.Following(record.Record{Node: node}, r, func(string, history.Values) history.Cause { return cause })
}
