package cluster

import (
	"context"

	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/report"
	"nodekeep.dev/nodekeep/selection"
)

// CountMigrations counts Nodes and records, and finds what selects on the old keys.
func (c *Cluster) CountMigrations(ctx context.Context, inputs plan.Inputs, all ...*impact.Migration) error {
	if len(all) == 0 {
		return nil
	}
	for state, err := range c.ListStates(ctx) {
		if err != nil {
			return err
		}
		for _, m := range all {
			m.Add(state, inputs)
		}
	}
	missing, err := c.ListUses(ctx, func(uses []selection.Use) {
		for _, m := range all {
			m.AddUses(uses)
		}
	})
	if err != nil {
		return err
	}
	for _, m := range all {
		m.Summarize(report.UnreadKinds(missing))
	}
	return nil
}
