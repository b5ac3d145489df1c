package gc

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// Options are what a Sweeper works with. All are required.
type Options struct {
	Records          RecordCache
	Controller       Controller
	Policy           func() policy.Policy
	PolicyIsFallback func() bool // the policy is only the default, since no other can be used: nothing is collected
	Now              func() time.Time
	Logger           *slog.Logger
	Metrics          *Metrics

	Interval time.Duration // 0: never
	Fraction float64       // of all records, how many one sweep may collect at most, but always one
	Remover  Remover
}

// RecordCache is where records are read from memory; [store.ConfigMaps] in a cluster.
type RecordCache interface {
	Get(node string) (store.Entry, error)
	// NodeNames lists the names of all Nodes that there is a record of.
	NodeNames() []string
}

// Controller is the controller of package capture: it knows which Nodes live, and who works on them.
type Controller interface {
	// Leading reports whether this process leads: only that one sweeps.
	Leading() bool
	// Tracks reports whether a Node lives or waits to be worked on.
	Tracks(node string) bool
	// LockNode waits until no worker works on a Node, and keeps it so until release is called.
	LockNode(node string) (release func())
	// CallRecovering does the work on one object; a panic in it is an error like any other.
	CallRecovering(work, node string, fn func() error) error
}

// Sweeper collects the records of deleted Nodes after the policy's retention.
type Sweeper struct{ Options }

// New makes a sweeper; it does nothing until [Sweeper.Run].
func New(options Options) *Sweeper { return &Sweeper{options} }

// collectTimeout is how long the work on one record may take.
const collectTimeout = 30 * time.Second

// checksPerSecond bounds how many records are checked, and so removed, per second. Each costs up to four API calls, and no client waits for
// them.
const checksPerSecond = 10

// Run sweeps at each interval until ctx is done. It starts once synced reports that all existing Nodes and records are in memory. A new
// leader waits one interval before its first sweep.
func (s *Sweeper) Run(ctx context.Context, synced ...cache.InformerSynced) {
	if s.Interval == 0 || !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return
	}
	limiter := flowcontrol.NewTokenBucketRateLimiter(checksPerSecond, 1)
	_ = wait.PollUntilContextCancel(ctx, s.Interval, false, func(ctx context.Context) (done bool, err error) {
		_ = s.Controller.CallRecovering("sweep records", "", func() error { s.Sweep(ctx, limiter.Wait); return nil })
		return false, nil
	})
}

// Sweep collects the records that are due, starting with the Nodes that were deleted longest ago. Before each record, it calls throttle, which
// waits. The first error ends the sweep: the answers of an API server in trouble prove nothing about Nodes.
func (s *Sweeper) Sweep(ctx context.Context, throttle func(context.Context) error) {
	if !s.Controller.Leading() {
		return
	}
	if s.PolicyIsFallback() {
		s.Logger.Warn("no record is removed: no policy can be used, so it is not known how long records are to stay; correct the NodePolicy")
		return
	}
	found := s.find()
	s.Metrics.swept(found.deleted, len(found.due))
	outcomes := map[Outcome]int{}
	var failure error
	for _, due := range oldest(found.due, MaxPerSweep(s.Fraction, found.all)) {
		if throttle(ctx) != nil || !s.Controller.Leading() {
			break // the process stops
		}
		outcome, err := s.collect(ctx, due.node)
		if err != nil && ctx.Err() != nil {
			break // the process stops, which is no error
		}
		s.Metrics.collected.WithLabelValues(string(outcome)).Inc()
		outcomes[outcome]++
		s.reportSwept(due, outcome)
		if _, panicked := contain.IsPanic(err); panicked {
			continue // that is about this record, and the API server is not in trouble
		}
		if failure = err; failure != nil {
			break
		}
	}
	s.reportSweep(found, outcomes, failure)
}

// findings are the records that a sweep begins with.
type findings struct {
	all     int // records, readable or not
	deleted int // those of deleted Nodes
	due     []candidate
}

// find reads the records in memory. A record that makes it panic is not due, and stops no other record. A Node does not count as deleted
// while the watch knows it, or while its deletion is not yet reconciled.
func (s *Sweeper) find() (found findings) {
	retention, now := s.Policy().Retention(), s.Now()
	for _, node := range s.Records.NodeNames() {
		found.all++
		_ = s.Controller.CallRecovering("judge record", node, func() error {
			entry, err := s.Records.Get(node)
			if err != nil || entry.Record.DeletedAt.IsZero() {
				return nil //nolint:nilerr // no record, or none that may be touched
			}
			found.deleted++
			if Due(entry.Record, retention, now) && !s.Controller.Tracks(node) {
				found.due = append(found.due, candidate{node: node, deletedAt: entry.Record.DeletedAt})
			}
			return nil
		})
	}
	return found
}

// collect removes a record if the live state shows that it is due and that its Node is deleted. Meanwhile nothing is decided for the name.
func (s *Sweeper) collect(ctx context.Context, node string) (outcome Outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	defer s.Controller.LockNode(node)()
	outcome = Failed // what a panic leaves
	err = s.Controller.CallRecovering("collect record", node, func() (err error) {
		outcome, err = s.Remover.Collect(ctx, node, func(r record.Record) bool {
			return !s.Controller.Tracks(node) && Due(r, s.Policy().Retention(), s.Now())
		})
		return err
	})
	return outcome, err
}

func (s *Sweeper) reportSwept(due candidate, outcome Outcome) {
	logger := s.Logger.With("node", due.node, "goneSince", due.deletedAt.UTC().Format(time.RFC3339))
	switch outcome {
	case Collected:
		logger.Info("record removed")
	case WouldCollect:
		logger.Info("record would be removed")
	default:
		logger.Info("record due for removal kept", "outcome", outcome)
	}
}

// reportSweep logs the result of a sweep, in one line.
func (s *Sweeper) reportSweep(found findings, outcomes map[Outcome]int, failure error) {
	counts := []any{
		"records", found.all, "gone", found.deleted, "due", len(found.due), "removed", outcomes[Collected], "wouldBeRemoved", outcomes[WouldCollect],
		"kept", outcomes[Kept], "putBack", outcomes[PutBack],
	}
	if failure != nil {
		s.Logger.Warn("sweep of records ended by an error; the next one goes on", append(counts, "error", failure)...)
		return
	}
	s.Logger.Info("records swept", counts...)
}
