package capture

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// aheadFor is how long a record is ahead of its Node before the API server is asked whether that can be. Usually the watch brings a
// later state sooner.
const aheadFor = 2 * time.Second

// resetRecord drops the versions of a record that can never be right. Such a record would keep a Node waiting for ever: capture
// would take it for an older object of its name. done says that there is something new to plan with.
func (a *attempt) resetRecord(ctx context.Context) (done bool, err error) {
	if !a.found || !ahead(a.entry.Record, a.seen) {
		return false, nil
	}
	if left := a.sightings.isAhead(a.seen.Name, a.entry.Version, a.aheadFor); left > 0 {
		a.queue.AddAfter(a.seen.Name, left)
		return false, nil
	}
	if !a.live {
		return true, a.readLive(ctx) // whole, and before the Node
	}
	node, err := a.Client.CoreV1().Nodes().Get(ctx, a.seen.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && node.UID != a.seen.UID:
		return false, nil // the watch will bring that
	case err != nil:
		return false, fmt.Errorf("get node %q: %w", a.seen.Name, err)
	case ahead(a.entry.Record, nodeOf(node)):
		return true, a.put(ctx, Reset, WithoutObject(a.entry.Record))
	default: // the watch is late; a heartbeat alone would not lead here again
		a.queue.AddAfter(a.seen.Name, a.sightings.isAhead(a.seen.Name, "", a.aheadFor))
		return false, nil
	}
}
