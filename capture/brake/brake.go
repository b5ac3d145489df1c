package brake

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/store"
)

// ChangesHeld is the reason of an Event about the NodePolicy. Records would remove items from many Nodes, which waits for an operator.
const ChangesHeld = "ChangesHeld"

// RetryInterval is how long corrections are held before capture looks again whether they still have to be.
const RetryInterval = 30 * time.Second

// Options are what a Brake works with. All are required.
type Options struct {
	Notes  store.ConfigMapNotes // of the release namespace
	Live   func() int           // how many Nodes live
	Warn   func(reason, format string, args ...any)
	Now    func() time.Time
	Logger *slog.Logger
}

// Brake holds corrections. The count is in a ConfigMap, so that neither a restart nor a second replica begins it anew. Any goroutine may call
// its methods.
type Brake struct {
	Options

	checkMu   sync.Mutex // one worker looks at a time
	heldUntil time.Time  // held until then, without another look
	reported  time.Time  // when it was said that corrections are held; zero: not since they were allowed last

	mu   sync.Mutex
	held map[string]time.Time // until when Nodes wait
}

// New returns a brake that holds nothing.
func New(options Options) *Brake { return &Brake{Options: options, held: map[string]time.Time{}} }

// ReserveCorrection reports whether a Node that was created then may be corrected now, and counts it.
func (b *Brake) ReserveCorrection(ctx context.Context, node string, created time.Time) (allowed bool, err error) {
	if b.Now().Sub(created) < NewNodePeriod {
		return true, nil
	}
	b.checkMu.Lock()
	defer b.checkMu.Unlock()
	now := b.Now() // taken after the lock: with an older time, parseCounts would drop newer minutes
	if now.Before(b.heldUntil) {
		b.setHeld(node, b.heldUntil)
		return false, nil
	}
	state, err := b.Notes.Get(ctx, store.AcceptedConfigMap)
	if err != nil {
		return false, err
	}
	live := b.Live()
	var data map[string]string
	if state != nil {
		data = state.Data
	}
	count, known, allowed := judge(data, live, now)
	if !allowed {
		b.heldUntil = now.Add(RetryInterval)
		b.setHeld(node, b.heldUntil)
		if now.Sub(b.reported) >= Window {
			b.reported = now
			b.report(count.nodes(), live, known)
		}
		if known {
			return false, nil
		}
		// An unknown count is written: the hour begins after which corrections are allowed again.
	} else {
		b.reported = time.Time{}
		b.setHeld(node, time.Time{})
	}
	next := count.encodeWithOneMore(now)
	if state == nil {
		err = b.Notes.Set(ctx, store.AcceptedConfigMap, false, map[string]*string{store.Corrected: &next})
	} else {
		_, err = b.Notes.Client.CoreV1().ConfigMaps(b.Notes.Namespace).Patch(ctx, store.AcceptedConfigMap, types.MergePatchType,
			store.PatchOf(state, store.Corrected, next), metav1.PatchOptions{FieldManager: b.Notes.FieldManager})
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) { // another replica was faster
		return false, err
	}
	return allowed && err == nil, err
}

// setHeld notes until when a Node waits; zero: it does not.
func (b *Brake) setHeld(node string, deadline time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.held, node); !deadline.IsZero() {
		b.held[node] = deadline
	}
}

// report reports that corrections are held. The count is not known where something else than nodekeep has written it.
func (b *Brake) report(nodes, total int, known bool) {
	share := fmt.Sprintf("%d of %d did", nodes, total)
	if !known {
		share = fmt.Sprintf("how many did is unknown, because key %s of ConfigMap %s was overwritten", store.Corrected, store.AcceptedConfigMap)
	}
	b.Logger.Error("records would remove items from many nodes, or revert them there; that is held until an operator accepts it", "nodes", nodes, "of", total, "known", known)
	b.Warn(ChangesHeld,
		"By their records, more than one Node in ten would lose or change labels or taints within an hour: %s. The others are held. This should never happen: first find out what changed the records (nodekeep show NODE --diff shows what is due on a Node). To accept it for an hour: nodekeep accept corrections",
		share)
}

// HeldNodes returns how many Nodes wait.
func (b *Brake) HeldNodes() (count int) {
	now := b.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, deadline := range b.held {
		if now.After(deadline.Add(RetryInterval)) { // it was decided otherwise since
			delete(b.held, name)
		}
	}
	return len(b.held)
}
