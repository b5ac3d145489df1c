package cli

import (
	"context"
	"fmt"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/store"
)

func (o *acceptOptions) recordRights(c *session, node string) (needed []doctor.Right) {
	for _, verb := range o.acceptVerbs("patch") {
		needed = append(needed, c.RecordRight(verb, node))
	}
	return needed
}

// checkRecord checks the name of a Node and the decision about its record.
func (o *acceptOptions) checkRecord(argument string) error {
	if _, err := nodeName(argument); err != nil {
		return err
	}
	if side := store.Side(o.machine); side != store.OldMachine && side != store.NewMachine {
		return fmt.Errorf("--machine %q: must be %s or %s", o.machine, store.OldMachine, store.NewMachine)
	}
	return nil
}

// acceptRecord decides between two machines that have had one name.
func (o *acceptOptions) acceptRecord(ctx context.Context, c *session, name string) error {
	side := store.Side(o.machine)
	return o.change(ctx, c, func(ctx context.Context) (*proposal, error) {
		state, err := c.AddRecord(ctx, nodestate.State{Name: name})
		if err == nil {
			err = c.RequireRecord(state)
		}
		switch {
		case err != nil:
			return nil, err
		case state.Record.Quarantined == nil:
			return nil, fmt.Errorf("there is nothing to decide: no other machine has taken the name %q since it was last decided", name)
		case state.StoreEntry.AcceptedSide == side:
			return nil, c.doneForCapture(ctx, "node/%s: machine %q was accepted before; capture has still to carry it out", name, side)
		}
		sides := view.QuarantinePlanOf(state.StoreEntry)
		return &proposal{document: sides.Document(c.Now()), question: sides.Question(side), fingerprint: sides, apply: func(ctx context.Context) error {
			if err := c.explainWriteError(c.RecordsRight("patch"), "the record of Node "+name, c.Records.Accept(ctx, name, side, state.StoreEntry.Version)); err != nil {
				return err
			}
			return c.doneForCapture(ctx, "node/%s: machine %q accepted", name, side)
		}}, nil
	})
}
