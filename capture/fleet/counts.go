package fleet

import (
	"iter"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// Node is what is known of one name.
type Node struct {
	Live     *observe.Node // nil: it does not exist
	Record   record.Record
	Recorded bool // there is a record that can be read
}

// CountAltered counts all live Nodes (total), and those on which rules would remove or change labels (changed). The third count is of Nodes from
// which migrations would remove the old key (renamed).
func CountAltered(nodes iter.Seq[Node], inputs plan.Inputs) (changed, renamed, total int) {
	for node := range nodes {
		if node.Live == nil || node.Live.Fault != nil {
			continue
		}
		total++
		if plan.RulesRemoveOrReplaceLabels(node.Record, node.Live, inputs) { // a Node without a record counts, too: its annotation lists the labels of rules
			changed++
		}
		if plan.MigrationsRemoveLabel(node.Record, node.Live, inputs) {
			renamed++
		}
	}
	return changed, renamed, total
}

// CountMigrations counts Nodes, and records of Nodes that do not exist, by how far the migrations of their labels are. A Node counts once for each
// migration.
func CountMigrations(nodes iter.Seq[Node], p policy.Policy, guardInForce bool) map[policy.MigrationState]int {
	states := map[policy.MigrationState]int{}
	for node := range nodes {
		switch {
		case node.Live == nil && node.Recorded:
			for _, m := range p.Migrations() {
				states[m.StateInRecord(node.Record)]++
			}
		case node.Live != nil && node.Live.Fault == nil:
			metadata := node.Live.Metadata(node.Record, p, guardInForce)
			for _, m := range p.Migrations() {
				states[m.StateOn(p, metadata)]++
			}
		}
	}
	return states
}
