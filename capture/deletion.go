package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// deletionBudget is how long a deletion may be held up by a caller that does not say how long it waits. It runs inside the API
// server's delete transaction.
const deletionBudget = 500 * time.Millisecond

// budget is half of the time that the caller waits: the answer has to reach it too.
func budget(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline) / 2
	}
	return deletionBudget
}

// Deletions sees every Node object that is about to be deleted, exactly as it is then, and records what the watch may not
// have brought yet: an edit a moment before the deletion, or one made while capture was down. It always allows. A call
// proves no deletion, so it marks nothing as gone; repeated calls change nothing.
type Deletions struct {
	Records Records
	Policy  func() policy.Policy
	Guards  *Guards
	Metrics *DeletionMetrics
	Logger  *slog.Logger
	Now     func() time.Time
}

var _ admission.Handler = (*Deletions)(nil)

// Handle writes the record first if it differs from the object that is about to go, and allows.
func (d *Deletions) Handle(ctx context.Context, request admission.Request) admission.Response {
	if request.Operation != admissionv1.Delete || request.Kind.Kind != "Node" || request.SubResource != "" {
		return admission.Allowed("")
	}
	if request.DryRun != nil && *request.DryRun {
		return admission.Allowed("")
	}
	ctx, cancel := context.WithTimeout(ctx, budget(ctx))
	defer cancel()
	outcome, err := d.record(ctx, request.OldObject.Raw)
	if err != nil {
		d.Logger.Error("node that is about to be deleted could not be recorded; what the watch brings of it still counts", "node", request.Name, "error", err)
	}
	d.Metrics.seen(outcome)
	return admission.Allowed("")
}

// record plans as for a Node that is on its way out: what it shows counts, and nothing is given any more.
func (d *Deletions) record(ctx context.Context, raw []byte) (deletionOutcome, error) {
	var object corev1.Node
	if err := json.Unmarshal(raw, &object); err != nil {
		return deletionFailed, fmt.Errorf("decode node: %w", err)
	}
	seen := nodeOf(&object).withGuards(d.Guards.InForce()) // its name is right also with deletecollection, whose requests have none
	entry, err := d.Records.Get(seen.Name)
	live := false
	for range maxSteps {
		var prev *store.Record
		switch {
		case err == nil:
			prev = &entry.Record
		case !errors.Is(err, store.ErrNotFound):
			return deletionFailed, err
		}
		next := noted(prev, seen, d.Policy(), d.Now())
		if next == nil && live {
			return deletionUnchanged, nil
		}
		if next != nil && !next.HistoryLeftOut() {
			_, err = d.Records.Put(ctx, *next, entry.Version)
			if err == nil {
				return deletionRecorded, nil
			}
			if !errors.Is(err, store.ErrConflict) {
				return deletionFailed, err
			}
		}
		live = true // that there is nothing to write is not believed to the cache: it may be behind; and it holds no history
		if entry, err = d.Records.GetLive(ctx, seen.Name); errors.Is(err, store.ErrNotFound) {
			entry = store.Entry{}
		}
	}
	return deletionFailed, errors.New("put record: it keeps changing")
}
