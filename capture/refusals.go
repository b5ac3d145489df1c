package capture

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// roundsBeforeKeyByKey is how often a give-back is refused as a whole before each of its labels is tried alone.
const roundsBeforeKeyByKey = 3

// notes is what this process knows of a Node object. It prevents endless refused requests and Events. It is in memory only, and only for
// objects with something to note. A restart or a new policy clears it. Only one worker at a time works on a Node, and so on its notes.
type notes struct {
	rounds   int             // how often a change was refused as a whole
	refused  map[string]bool // items that the API server would not have
	reported map[string]bool
}

// notesOf are the notes of a Node object, for one to be added.
func (c *Controller) notesOf(uid types.UID) *notes {
	of, _ := c.notes.LoadOrStore(uid, &notes{refused: map[string]bool{}, reported: map[string]bool{}})
	return of.(*notes)
}

// refusedOn are the items that the API server would not have on a Node object.
func (c *Controller) refusedOn(uid types.UID) map[string]bool {
	if of, known := c.notes.Load(uid); known {
		return of.(*notes).refused
	}
	return nil
}

// mostReported bounds what is reported of one Node object. A kubelet's reports can make ever new values.
const mostReported = 200

// report reports whether something has not been reported of the Node object yet.
func (n *notes) report(what string) (news bool) {
	news = !n.reported[what] && len(n.reported) < mostReported
	if news {
		n.reported[what] = true
	}
	return news
}

// refused handles a PATCH that the API server has refused. A wrong uid is refused, too: then another object has the name. Otherwise the
// same PATCH is retried a few times. Then each key is tried alone, to find out which items are refused.
func (a *attempt) refused(ctx context.Context, change Change, refusal error) (result, error) {
	if result, err := a.readNode(ctx); err != nil || result != again {
		return result, err
	}
	refusal = fmt.Errorf("patch node %q: %w", a.node.Name, refusal)
	notes := a.notesOf(a.node.UID)
	if notes.rounds++; notes.rounds < roundsBeforeKeyByKey || len(change.keys()) == 0 {
		return again, refusal
	}
	if len(change.keys()) > 1 || change.LiftGate || len(change.AddTaints)+len(change.RemoveTaints) > 0 {
		a.keyByKey = true // decided again first: the Node may not be what the change was made for
		return again, nil
	}
	// The only item of a change is given up for this object, unless every change of the Node is refused.
	key := change.keys()[0]
	node, err := a.patch(ctx, Change{RegisterTaints: change.RegisterTaints, Stamp: change.Stamp})
	if err != nil {
		return again, refusal
	}
	a.node = node
	notes.refused[key] = true
	a.reportRefused(a.node, key, refusal)
	return again, nil
}
