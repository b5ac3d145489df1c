package capture

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/store"
)

// RemovableRecords is where records are removed; [store.ConfigMaps] in a cluster.
type RemovableRecords interface {
	Put(ctx context.Context, record store.Record, version string) (store.Entry, error)
	Delete(ctx context.Context, node, version string) error
}

// Removal removes records.
type Removal struct {
	Records RemovableRecords
	Client  kubernetes.Interface
}

// Rehearsal removes nothing: what would be removed is counted and logged.
type Rehearsal struct{}

var (
	_ Remover = Removal{}
	_ Remover = Rehearsal{}
)

// secondLook is how long the look at what has happened meanwhile may take, also in a process that was told to stop.
const secondLook = 10 * time.Second

// Remove removes exactly the record that was read. A Node of the name may register between the look for it and the removal,
// and nothing can make the two one. So the Node is looked for once more, and unless it is known to be gone still, the record
// is put back as it was: it is there before a plan is made for that Node.
func (r Removal) Remove(ctx context.Context, entry store.Entry) (Outcome, error) {
	node := entry.Record.Node
	failure := r.Records.Delete(ctx, node, entry.Version)
	if errors.Is(failure, store.ErrConflict) {
		return Kept, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), secondLook)
	defer cancel()
	gone, unknown := isGone(ctx, r.Client, node)
	switch {
	case gone && failure == nil:
		return Collected, nil
	case gone: // it may be removed or not; the next sweep sees
		return Failed, failure
	}
	switch _, err := r.Records.Put(ctx, entry.Record, ""); {
	case err == nil:
		return PutBack, errors.Join(failure, unknown)
	case errors.Is(err, store.ErrConflict): // it was not removed, or somebody has recorded that Node
		return Kept, errors.Join(failure, unknown)
	default:
		return Failed, errors.Join(failure, unknown, fmt.Errorf("put back what was removed a moment too late: %w", err))
	}
}

// Remove says what would be.
func (Rehearsal) Remove(context.Context, store.Entry) (Outcome, error) { return Rehearsed, nil }
