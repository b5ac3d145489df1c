package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/time/rate"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// deletionBudget is how long a deletion may be delayed if the caller does not say how long it waits. It runs inside the API server's delete
// transaction.
const deletionBudget = 500 * time.Millisecond

// lateWrite is how much longer recording may take after the answer. So a busy API server that stores records slowly loses none.
const lateWrite = 2 * time.Second

// budget returns how soon the answer is due: after half of the time that the caller waits. It has to reach the caller, too.
func budget(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline) / 2
	}
	return deletionBudget
}

// Deletions records Nodes that are about to be deleted, exactly as they are then. The watch may not have delivered an edit a moment before
// the deletion, or one made while capture was down. A review is a hint, never evidence: any client may have sent it. It says which Node
// object to read. The record comes from the API server, which still has the object during the review. Deletions always allows. A call
// proves no deletion, so it marks nothing as deleted; repeated calls change nothing.
type Deletions struct {
	DeletionOptions

	// A review that names a Node object of the records has places of its own. So a flood of invented names does not delay it.
	recorded, compared shared[deletionOutcome]
	moments            moments
	failures           rate.Sometimes // that are logged: one a second, since reviews can be forged. The metric counts all
}

// DeletionOptions are what a DELETE handler works with. All are required.
type DeletionOptions struct {
	Nodes   Nodes // reads past every cache
	Records WritableRecords
	Cluster func() string // UID of the namespace kube-system; empty while it is not known
	Policy  func() policy.Policy
	Guard   *guard.Guard
	Metrics *DeletionMetrics
	Logger  *slog.Logger
	Now     func() time.Time
}

// WritableRecords is where records are kept; [store.ConfigMaps] in a cluster.
type WritableRecords interface {
	Get(node string) (store.Entry, error)
	GetFromAPI(ctx context.Context, node string) (store.Entry, error)
	Put(ctx context.Context, r record.Record, version string) (store.Entry, error)
}

// Nodes reads a Node from the API server.
type Nodes interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Node, error)
}

// How many reviews are worked on at once; others wait while their callers do.
const (
	recordedAtOnce = 32
	othersAtOnce   = 8
)

// NewDeletions makes the handler.
func NewDeletions(options DeletionOptions) *Deletions {
	return &Deletions{
		DeletionOptions: options,
		recorded:        shared[deletionOutcome]{atOnce: recordedAtOnce}, compared: shared[deletionOutcome]{atOnce: othersAtOnce},
		moments: newMoments(), failures: rate.Sometimes{Interval: time.Second},
	}
}

var _ admission.Handler = (*Deletions)(nil)

// Handle writes the record first if it differs from the Node that is about to go, and allows.
func (d *Deletions) Handle(ctx context.Context, request admission.Request) admission.Response {
	if request.Operation != admissionv1.Delete || request.Kind.Kind != "Node" || request.SubResource != "" {
		return admission.Allowed("")
	}
	if request.DryRun != nil && *request.DryRun {
		return admission.Allowed("")
	}
	ctx, cancel := context.WithTimeout(ctx, budget(ctx))
	defer cancel()
	outcome, err := d.review(ctx, request)
	if err != nil {
		d.failures.Do(func() {
			d.Logger.Warn("node that is about to be deleted could not be recorded; what the watch brings of it still counts", "node", request.Name, "error", err)
		})
	}
	d.Metrics.seen(outcome)
	return admission.Allowed("")
}

func (d *Deletions) review(ctx context.Context, request admission.Request) (deletionOutcome, error) {
	hint, ok := hinted(request)
	if !ok {
		return deletionAbsent, nil
	}
	entry, err := d.Records.Get(hint.name)
	if errors.Is(err, store.ErrUnreadable) {
		return deletionFailed, err
	}
	by := &d.compared
	if err == nil && entry.Record.Newest().UID == hint.uid {
		by = &d.recorded
	}
	outcome, err := by.run(ctx, hint.name+"/"+string(hint.uid), func() (deletionOutcome, error) {
		answered, _ := ctx.Deadline()
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), answered.Add(lateWrite))
		defer cancel()
		outcome, err := d.record(ctx, hint)
		for connectionLost(err) && ctx.Err() == nil { // one of several API servers may be going away; the next connection finds another
			time.Sleep(reconnectPause)
			outcome, err = d.record(ctx, hint)
		}
		return outcome, err
	})
	if err != nil {
		return deletionFailed, err
	}
	return outcome, nil
}

// reconnectPause is before an API server that ended or refused a connection is asked again.
const reconnectPause = 20 * time.Millisecond

func connectionLost(err error) bool {
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err)
}

// hint is which Node object a review says is about to be deleted.
type hint struct {
	name string
	uid  types.UID
}

// longestUID bounds what is taken for a UID; those of Nodes are 36 characters long.
const longestUID = 128

// hinted reads only the name and the UID from a review. If the review names no possible Node, ok is false. With deletecollection the
// request has no name, but the object has.
func hinted(request admission.Request) (h hint, ok bool) {
	var object struct {
		Metadata struct {
			Name string    `json:"name"`
			UID  types.UID `json:"uid"`
		} `json:"metadata"`
	}
	if decodeMetadata(request.OldObject.Raw, &object.Metadata) != nil {
		return hint{}, false
	}
	h = hint{object.Metadata.Name, object.Metadata.UID}
	ok = h.uid != "" && len(h.uid) <= longestUID && len(validation.IsDNS1123Subdomain(h.name)) == 0 &&
		(request.Name == "" || request.Name == h.name)
	return h, ok
}

// decodeMetadata reads metadata, which comes first, and nothing behind it: reviews are not in turn here.
func decodeMetadata(object []byte, target any) error {
	decoder, found := jsontext.NewDecoder(bytes.NewBuffer(object), asSent()), false
	err := members(decoder, func(name string) (proceed bool, err error) {
		if found = name == "metadata"; found {
			return false, json.UnmarshalDecode(decoder, target)
		}
		return true, decoder.SkipValue()
	})
	if err == nil && !found {
		err = errors.New("it has no metadata")
	}
	return err
}

// Record does the same as a review that names this Node object. The error says why its record may be stale.
func (d *Deletions) Record(ctx context.Context, name string, uid types.UID) error {
	_, err := d.record(ctx, hint{name, uid})
	return err
}

// record merges the Node, as it is now, into its record. Later states of this object are not observed, so this one counts as final.
func (d *Deletions) record(ctx context.Context, hint hint) (deletionOutcome, error) {
	node, err := d.node(ctx, hint)
	if err != nil || node == nil {
		return deletionAbsent, err
	}
	mayBeNoted := sync.OnceValue(func() bool { return d.moments.take(hint.uid) })
	entry, err := d.Records.Get(hint.name)
	for live := false; ; live = true {
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return deletionFailed, err
		}
		prev, _ := entry.Record.Rebase(d.Cluster(), record.AnyVersion)
		if prev.Newest().Version > node.Version { // the Node may have changed since it was read, or the record is not of this cluster
			reread, err := d.node(ctx, hint)
			if err != nil {
				return deletionFailed, err
			}
			if reread != nil { // where the Node is deleted by now, the state that was read is the last one that is known
				node = reread
				prev, _ = entry.Record.Rebase(d.Cluster(), node.Version)
			}
		}
		next, worth := d.merged(node, prev, mayBeNoted)
		switch {
		case !worth && live:
			return deletionUnchanged, nil
		case worth && !next.Omitted():
			if _, err = d.Records.Put(ctx, next, entry.Version); err == nil {
				return deletionRecorded, nil
			}
			if !errors.Is(err, store.ErrConflict) {
				return deletionFailed, err
			}
		}
		// The cache alone does not prove that there is nothing to write. It may be stale, and it holds no history.
		if entry, err = d.Records.GetFromAPI(ctx, hint.name); errors.Is(err, store.ErrNotFound) {
			entry = store.Entry{}
		}
		if ctx.Err() != nil {
			return deletionFailed, ctx.Err()
		}
	}
}

// merged returns the record after this observation, and whether it is worth a write. That a state is the last one is, but reviews can be forged.
func (d *Deletions) merged(node *observe.Node, prev record.Record, mayBeNoted func() bool) (next record.Record, worth bool) {
	current := d.Policy()
	result, _ := node.Transition(prev, current, d.Now())
	o := node.Observation(result, current, d.Guard.InForce())
	next = node.Merge(result, o, current, d.Now())
	if record.WorthWriting(prev, next, o, false) {
		return next, true
	}
	o.Final = true
	return next, record.WorthWriting(prev, next, o, false) && mayBeNoted()
}

// node reads a Node from the API server. It is nil without an error if there is no Node of that name and UID.
func (d *Deletions) node(ctx context.Context, hint hint) (*observe.Node, error) {
	object, err := d.Nodes.Get(ctx, hint.name, metav1.GetOptions{}) // without a resourceVersion: past every cache
	switch {
	case store.IsGone(err), err == nil && object.UID != hint.uid:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get node: %w", err)
	}
	node := observe.FromNodeWithAnnotations(object, d.Policy().Annotations())
	return node, node.Fault
}
