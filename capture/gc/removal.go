package gc

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// RecordClient is where records are read and removed as they are now; [store.ConfigMaps] in a cluster.
type RecordClient interface {
	GetFromAPI(ctx context.Context, node string) (store.Entry, error)
	Put(ctx context.Context, r record.Record, version string) (store.Entry, error)
	Delete(ctx context.Context, node, version string) error
}

// Remover removes records of deleted Nodes.
type Remover struct {
	Records RecordClient
	Client  kubernetes.Interface
	DryRun  bool // nothing is removed: what would be is counted and logged
}

// Collect removes the record of a Node if it is due, as it is now, and the Node is deleted.
func (r Remover) Collect(ctx context.Context, node string, due func(record.Record) bool) (Outcome, error) {
	entry, err := r.Records.GetFromAPI(ctx, node)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrUnreadable):
		return Kept, nil
	case err != nil:
		return Failed, err
	case !due(entry.Record):
		return Kept, nil
	}
	switch gone, err := r.isGone(ctx, node); {
	case err != nil:
		return Failed, err
	case !gone:
		return Kept, nil
	case r.DryRun:
		return WouldCollect, nil
	}
	return r.Remove(ctx, entry)
}

// Timeouts of a removal. One that has started is not cancelled, not even when the process shuts down: the API server may already have executed the request,
// although no answer arrives.
const (
	removalTimeout = 10 * time.Second // for the DELETE
	recheckTimeout = 10 * time.Second // for the check afterwards
)

// Remove removes exactly the record that was read. A Node of the name may register between the check and the removal, and no request makes
// both atomic. So Remove checks again afterwards. Unless the Node is known to be still deleted, it restores the record unchanged. The
// record then exists before any decision is made for that Node.
func (r Remover) Remove(ctx context.Context, entry store.Entry) (Outcome, error) {
	node := entry.Record.Node
	removeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTimeout)
	defer cancel()
	failure := r.Records.Delete(removeCtx, node, entry.Version)
	if errors.Is(failure, store.ErrConflict) {
		return Kept, nil
	}
	recheckCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recheckTimeout)
	defer cancel()
	gone, goneErr := r.isGone(recheckCtx, node)
	switch {
	case gone && failure == nil:
		return Collected, nil
	case gone: // it may be removed or not; the next sweep sees
		return Failed, failure
	}
	switch _, err := r.Records.Put(recheckCtx, entry.Record, ""); {
	case err == nil:
		return PutBack, errors.Join(failure, goneErr)
	case errors.Is(err, store.ErrConflict): // it was not removed, or another process has recorded that Node
		return Kept, errors.Join(failure, goneErr)
	default:
		return Failed, errors.Join(failure, goneErr, fmt.Errorf("put back what was removed a moment too late: %w", err))
	}
}

// isGone reports whether the API server says of its own that there is no such Node.
func (r Remover) isGone(ctx context.Context, node string) (bool, error) {
	_, err := r.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	switch {
	case err == nil:
		return false, nil
	case store.IsGone(err):
		return true, nil
	default:
		return false, fmt.Errorf("look for node %q: %w", node, err)
	}
}
