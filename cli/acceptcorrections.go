package cli

import (
	"context"
	"time"

	"nodekeep.dev/nodekeep/capture/brake"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/store"
)

func (o *acceptOptions) correctionsRights(c *session, _ string) (needed []doctor.Right) {
	for _, verb := range o.acceptVerbs("patch", "create") {
		needed = append(needed, c.ConfigMapRight(verb, store.AcceptedConfigMap))
	}
	return needed
}

// acceptCorrections lets records correct any number of Nodes for an hour.
func (o *acceptOptions) acceptCorrections(ctx context.Context, c *session, _ string) error {
	return o.change(ctx, c, func(ctx context.Context) (*proposal, error) {
		state, err := c.GetAcceptedConfigMap(ctx)
		if err != nil {
			return nil, err
		}
		nodes := 0
		if state != nil {
			nodes = brake.CorrectedNodes(state.Data, time.Now())
		}
		subject := "In the last hour, records took labels or taints off " + view.Counted(nodes, "Node") + ", or reverted them there."
		return &proposal{summary: subject, question: "Let them do so on any number of Nodes, for an hour?", apply: func(ctx context.Context) error {
			if err := c.writeAccepted(ctx, state, store.CorrectionsAccepted, time.Now().UTC().Format(time.RFC3339)); err != nil {
				return err
			}
			return c.doneForCapture(ctx, "corrections: accepted for an hour; capture follows within a minute")
		}}, nil
	})
}
