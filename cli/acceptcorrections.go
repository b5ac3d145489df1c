package cli

import (
	"context"
	"time"

	"nodekeep.dev/nodekeep/capture/brake"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/store"
)

// corrections is what an operator names in place of a hash.
const corrections = "corrections"

// acceptCorrections plans to let records correct any number of Nodes for an hour.
func (c *session) acceptCorrections(ctx context.Context, dryRun bool) (*proposal, error) {
	state, err := c.GetRulesState(ctx)
	if err != nil {
		return nil, err
	}
	nodes := 0
	if state != nil {
		nodes = brake.CorrectedNodes(state.Data, time.Now())
	}
	subject := "In the last hour, records took labels or taints off " + view.Counted(nodes, "Node") + ", or reverted them there."
	if dryRun {
		return nil, c.printResult("%s Nothing was changed (dry run).", subject)
	}
	return &proposal{question: subject + "\nLet them do so on any number of Nodes, for an hour?", apply: func(ctx context.Context) error {
		if err := c.writeAccepted(ctx, state, store.CorrectionsAccepted, time.Now().UTC().Format(time.RFC3339)); err != nil {
			return err
		}
		return c.doneForCapture(ctx, "corrections: accepted for an hour; capture follows within a minute")
	}}, nil
}
