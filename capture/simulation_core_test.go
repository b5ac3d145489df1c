package capture_test

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	eventrecord "k8s.io/client-go/tools/record"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/capture/gc"
	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/storetest"
	"nodekeep.dev/nodekeep/webhook"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// All that the simulation knows of the product stands in this file and in export_test.go; the rest knows Nodes, records by what
// they remember, and the annotations by their names.

const (
	ourManager      = "nodekeep"
	stampAnnotation = policy.StampAnnotation
	ownerAnnotation = policy.TaintsAnnotation // lists the taints that rules made
	gate            = policy.DefaultGate
)

type (
	controller   = capture.Process
	pendingState = capture.PendingState
	policyFile   = policy.Policy
	recorded     = record.Record
	recordEntry  = store.Entry
	recordStore  = storetest.Memory
	change       = history.Change
)

var errNoRecord = store.ErrNotFound

// clusterUID is that of the cluster of each scenario.
const clusterUID = "this-cluster"

// asCached returns a record as caches hold it.
func asCached(entry recordEntry) recordEntry {
	entry.Record = withoutHistory(entry.Record)
	return entry
}

func withoutHistory(r recorded) recorded {
	r.HistoryOmitted, r.History = r.HistoryOmitted || len(r.History) > 0, nil
	if r.Quarantined != nil {
		old := withoutHistory(*r.Quarantined)
		r.Quarantined = &old
	}
	return r
}

// remembered returns each key that a record remembers, with its value.
func remembered(r recorded) map[string]string { return r.Items() }

// ownersIn returns the owners that a record knows, by key.
func ownersIn(r recorded) map[string]string {
	owners := map[string]string{}
	for _, e := range r.Entries {
		if e.Owners != "" {
			owners[e.Key] = string(e.Owners)
		}
	}
	return owners
}

// holdsNothing reports whether nothing is lost with a record.
func holdsNothing(r recorded) bool { return r.Empty() }

func saysDeleted(r recorded) bool { return !r.DeletedAt.IsZero() }

func newestObject(r recorded) types.UID { return r.Newest().UID }

// holds reports whether a state is the newest one of its object that a record was merged with.
func holds(r recorded, uid types.UID, version int) bool {
	return r.Observed(uid) == record.Version(version)
}

// withoutReason reports whether a write changed nothing that is worth one.
func withoutReason(prev, next recorded, byCapture bool) bool {
	return !byCapture && reflect.DeepEqual(prev.Seen, next.Seen) && reflect.DeepEqual(reasons(prev), reasons(next)) ||
		byCapture && reflect.DeepEqual(reasons(prev), reasons(next))
}

// reasons returns what of a record is worth a write; how new an observation was is not.
func reasons(r recorded) any {
	object := func(version record.Version) (uid types.UID) {
		for _, o := range r.Seen {
			if version > r.Floor && o.Version >= version {
				return o.UID
			}
		}
		return ""
	}
	type reason struct {
		record.Entry
		object types.UID
	}
	var entries []reason
	for _, e := range r.Entries {
		item := reason{e, object(e.Version)}
		if item.NotShown = false; !record.IsTaint(e.Key) { // that a taint was set back to its value shows in the version only
			item.Version = 0
		}
		entries = append(entries, item)
	}
	ended := r.Seen // the end of an object is a reason
	if len(ended) > 0 && r.DeletedAt.IsZero() {
		ended = ended[:len(ended)-1]
	}
	return []any{entries, ended, r.Newest().UID, r.DeletedAt, r.Machine, r.Quarantined != nil}
}

func describeRecord(r recorded) string {
	return fmt.Sprintf("record{%s %v floor %d seen %v deleted: %t}", r.Node, r.Entries, r.Floor, r.Seen, !r.DeletedAt.IsZero())
}

// foreignRecord returns a record that another cluster wrote.
func foreignRecord(name string, items map[string]string, deleted bool) recorded {
	r := record.New(name, record.Object{UID: "of-another-cluster", Version: 4_000_000_000}, items)
	r.Cluster = "of-another-cluster"
	if deleted {
		r.DeletedAt = epoch
	}
	return r
}

// forgedStamp returns an annotation that lists items as if nodekeep had set them.
func forgedStamp(items map[string]string) string {
	return record.Stamp{}.Merge(items, record.Record{}, 0).String()
}

// givenOwners returns the names of the owners that a stamp lists with each key.
func givenOwners(annotation string) map[string][]string {
	stamp, _ := record.ParseStamp(annotation)
	owners := map[string][]string{}
	for key, given := range stamp.Given {
		for _, manager := range given.Owners.Managers() {
			owners[key] = append(owners[key], manager.Name)
		}
	}
	return owners
}

// brought returns what an annotation lists as brought.
func brought(annotation string) map[string]string {
	stamp, _ := record.ParseStamp(annotation)
	return stamp.Brought
}

// loadPolicy reads a policy, which knows the rules of the one before.
func loadPolicy(text string, prev *policy.Policy) policy.Policy {
	p, err := policy.Load([]byte(policytest.Manifest(text)), policy.DefaultGate)
	if err != nil {
		panic(err)
	}
	if prev != nil {
		p = p.WithPredecessor(*prev)
	}
	return p
}

// capturePorts are what a process of capture needs of the cluster.
type capturePorts struct {
	client  kubernetes.Interface
	records interface {
		capture.RecordStore
		gc.RecordClient
	}
	policy  func() policy.Policy
	guards  bool
	now     func() time.Time
	pause   time.Duration
	delayed func(name string, wait time.Duration)
}

func newProcess(p capturePorts) *capture.Process {
	return capture.NewProcess(capture.Options{
		Client: p.client, Records: p.records, Policy: p.policy, Events: &eventrecord.FakeRecorder{}, Guard: guard.Known(p.guards), ClusterUID: func() string { return clusterUID },
		Metrics: capture.NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler), Now: p.now,
	}, p.pause, p.delayed)
}

// collectRecords removes the records that are due.
func collectRecords(p *capture.Process, records interface {
	gc.RecordCache
	gc.RecordClient
}, client kubernetes.Interface, current func() policy.Policy, now func() time.Time) {
	gc.New(gc.Options{
		Records: records, Controller: p, Policy: current, PolicyIsFallback: func() bool { return false }, Now: now, Logger: slog.New(slog.DiscardHandler), Metrics: gc.NewMetrics(prometheus.NewRegistry()),
		Fraction: 1, Remover: gc.Remover{Records: records, Client: client},
	}).Sweep(context.Background(), func(context.Context) error { return nil })
}

// recordDeletion returns what the DELETE handler does about a Node that is about to be deleted.
func recordDeletion(nodes webhook.Nodes, records capture.RecordStore, current func() policy.Policy, guards bool, now func() time.Time, name string, uid types.UID) error {
	return webhook.NewDeletions(webhook.DeletionOptions{
		Nodes: nodes, Records: records, Cluster: func() string { return clusterUID }, Policy: current, Guard: guard.Known(guards),
		Logger: slog.New(slog.DiscardHandler), Now: now,
	}).Record(context.Background(), name, uid)
}

// reviewCreation is what the API server makes of a Node after the webhook's answer.
var reviewCreation = capture.ReviewCreation

// taintKey names a taint as records do.
func taintKey(taint corev1.Taint) string { return record.TaintKey(taint) }

// taintOf returns the taint of a key.
func taintOf(key, value string) corev1.Taint { return record.Taint(key, value) }

// itemsOf returns labels and taints by key.
func itemsOf(labels map[string]string, taints []corev1.Taint) map[string]string {
	return record.Join(labels, taints)
}

// rulesTaints returns what the rules want on a Node.
func rulesTaints(p policy.Policy, labels map[string]string) []corev1.Taint {
	return slices.DeleteFunc(p.TaintsFor(labels), func(taint corev1.Taint) bool { return taintKey(taint) != ruleTaint })
}
