package observe

import (
	"time"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// maxShownNode leaves room for the word before it in the name of an actor.
const maxShownNode = 100

// Follow returns the first record of a Node whose machine had another name before; see [record.Follow]. Its history begins with that.
func Follow(old record.Record, node string, machine record.Machine, now time.Time) record.Record {
	r := record.Follow(old, node, machine, policy.FollowsOnlyAccepted)
	cause := causeAt("followed "+policy.Shortened(old.Node, maxShownNode), now)
	return history.Append(record.Record{Node: node}, r, func(string, history.Values) history.Cause { return cause })
}

// Renamed returns the record after migrations of phase new have renamed labels that this Node shows under both keys. If any label was renamed,
// changed is true. The newest observation in r must be that of this Node.
func (n *Node) Renamed(r record.Record, p policy.Policy, guardInForce bool, now time.Time) (renamed record.Record, changed bool) {
	return renamedBy(r, p, now, true, func(r record.Record, m policy.Migration) bool { return m.Renames(p, n.Metadata(r, p, guardInForce)) })
}

// RenamedWithoutNode is [Node.Renamed] for the record of a Node that does not exist: all that it remembers is renamed.
func RenamedWithoutNode(r record.Record, p policy.Policy, now time.Time) (renamed record.Record, changed bool) {
	return renamedBy(r, p, now, false, func(_ record.Record, m policy.Migration) bool { return m.Phase == policy.MigrateNew })
}

func renamedBy(r record.Record, p policy.Policy, now time.Time, shown bool, renames func(record.Record, policy.Migration) bool) (record.Record, bool) {
	changed := false
	for _, m := range p.Migrations() {
		if !renames(r, m) {
			continue
		}
		next, renamed := record.Rename(r, m.From, m.To, shown)
		if !renamed {
			continue
		}
		cause := causeAt(history.RuleActor(classify.CopyRule), now)
		r, changed = history.Append(r, next, func(string, history.Values) history.Cause { return cause }), true
	}
	return r, changed
}
