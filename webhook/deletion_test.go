package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/storetest"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// counted are records that count the writes that were made.
type counted struct {
	storetest.Memory
	mu     sync.Mutex
	writes int
	hook   func()       // is called before each write, once
	err    error        // what each write is answered
	cached *store.Entry // what the cache has; nil: what is stored
}

func (r *counted) Get(node string) (store.Entry, error) {
	if r.cached != nil {
		return *r.cached, nil
	}
	return r.Memory.Get(node)
}

func (r *counted) Put(ctx context.Context, next record.Record, version string) (store.Entry, error) {
	r.mu.Lock()
	prev := r.hook
	r.hook = nil
	r.mu.Unlock()
	if prev != nil {
		prev()
	}
	if r.err != nil {
		return store.Entry{}, r.err
	}
	entry, err := r.Memory.Put(ctx, next, version)
	if err == nil {
		r.mu.Lock()
		r.writes++
		r.mu.Unlock()
	}
	return entry, err
}

// liveNode is what the API server has of one Node: nil is nothing.
type liveNode struct {
	mu    sync.Mutex
	node  *corev1.Node
	reads int
	next  *corev1.Node // what it has from the second read on, if anything else
	err   error
}

func (l *liveNode) Get(_ context.Context, name string, options metav1.GetOptions) (*corev1.Node, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if options.ResourceVersion != "" {
		return nil, errors.New("this read may come from a cache")
	}
	if l.reads++; l.reads > 1 && l.next != nil {
		l.node = l.next
	}
	if l.err != nil {
		return nil, l.err
	}
	if l.node == nil || l.node.Name != name {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name)
	}
	return l.node.DeepCopy(), nil
}

func deletionsOf(records WritableRecords, nodes Nodes, change ...func(*DeletionOptions)) *Deletions {
	options := DeletionOptions{
		Nodes: nodes, Records: records, Cluster: func() string { return "c1" }, Policy: policy.Default, Guard: &guard.Guard{},
		Metrics: NewDeletionMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler), Now: time.Now,
	}
	for _, c := range change {
		c(&options)
	}
	return NewDeletions(options)
}

// withPolicy is for a handler with these sections of a policy.
func withPolicy(t *testing.T, sections string) func(*DeletionOptions) {
	t.Helper()
	p := load(t, sections)
	return func(o *DeletionOptions) { o.Policy = func() policy.Policy { return p } }
}

// load returns a policy with these sections.
func load(t testing.TB, sections string) policy.Policy {
	t.Helper()
	p, err := policy.Load([]byte(policytest.Manifest(sections)), policy.DefaultGate)
	require.NoError(t, err)
	return p
}

func deletionOf(t *testing.T, node *corev1.Node) admission.Request {
	t.Helper()
	raw, err := json.Marshal(node)
	require.NoError(t, err)
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Delete, Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Node"}, Name: node.Name, OldObject: runtime.RawExtension{Raw: raw},
	}}
}

// review sends the review of a deletion and says how it ended.
func review(t *testing.T, d *Deletions, node *corev1.Node) (outcome deletionOutcome) {
	t.Helper()
	prev := outcomesOf(d)
	assert.True(t, d.Handle(t.Context(), deletionOf(t, node)).Allowed, "a deletion is never kept from happening")
	for outcome, count := range outcomesOf(d) {
		if count > prev[outcome] {
			return outcome
		}
	}
	t.Fatal("no outcome was counted")
	return ""
}

func outcomesOf(d *Deletions) map[deletionOutcome]float64 {
	counts := map[deletionOutcome]float64{}
	for _, outcome := range []deletionOutcome{deletionRecorded, deletionUnchanged, deletionAbsent, deletionFailed} {
		var metric dto.Metric
		if err := d.Metrics.total.WithLabelValues(string(outcome)).Write(&metric); err != nil {
			panic(err)
		}
		counts[outcome] = metric.GetCounter().GetValue()
	}
	return counts
}

func labelled(uid types.UID, version record.Version, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: uid, ResourceVersion: version.String(), Labels: labels}}
}

// remembered returns a record of an object that showed these labels.
func remembered(uid types.UID, version record.Version, labels map[string]string) record.Record {
	r := record.New("n1", record.Object{UID: uid, Version: version}, labels)
	r.Cluster = "c1"
	return r
}

func storedAs(t *testing.T, r *counted, rec record.Record) {
	t.Helper()
	_, err := r.Memory.Put(t.Context(), rec, "")
	require.NoError(t, err)
}

func (r *counted) live(t *testing.T) record.Record {
	t.Helper()
	entry, err := r.GetFromAPI(t.Context(), "n1")
	require.NoError(t, err)
	return entry.Record
}

type labels = map[string]string

func TestTheLastStateOfANodeIsRecordedOnce(t *testing.T) {
	records := &counted{}
	storedAs(t, records, remembered("u1", 5, labels{"a": "1"}))
	node := labelled("u1", 9, labels{"a": "1"}) // b was set at 7 and removed at 9, and nobody saw it
	d := deletionsOf(records, &liveNode{node: node})

	assert.Equal(t, deletionRecorded, review(t, d, node))
	r := records.live(t)
	assert.Equal(t, record.Object{UID: "u1", Version: 9}, r.Newest(), "the deletion is the last observation, although nothing else differs")
	assert.True(t, r.DeletedAt.IsZero(), "a review proves no deletion")
	late := record.Merge(r, record.Observation{UID: "u1", Version: 7, Items: map[string]record.Item{"a": {Value: "1"}, "b": {Value: "1"}}})
	assert.Equal(t, labels{"a": "1"}, late.Items(), "a process that is behind does not bring b back")

	for range 3 { // an API server may ask again
		assert.Equal(t, deletionUnchanged, review(t, d, node))
	}
	assert.Equal(t, 1, records.writes)
}

// A review can be forged, and each heartbeat of a Node is a later state.
func TestForgedReviewsHaveTheMomentOfANodeWrittenOnceInAWhileAndEachEdit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records, nodes := &counted{}, &liveNode{}
		d := deletionsOf(records, nodes)
		heartbeat := func(version record.Version, value string) deletionOutcome {
			nodes.node = labelled("u1", version, labels{"a": value})
			return review(t, d, nodes.node)
		}
		assert.Equal(t, deletionRecorded, heartbeat(5, "1"), "the first record")
		assert.Equal(t, deletionRecorded, heartbeat(6, "1"), "the moment")
		for version := range record.Version(50) {
			assert.Equal(t, deletionUnchanged, heartbeat(10+version, "1"))
		}
		assert.Equal(t, deletionRecorded, heartbeat(100, "2"), "an edit is always recorded")
		assert.Equal(t, deletionUnchanged, heartbeat(101, "2"))
		assert.Equal(t, 3, records.writes)
		time.Sleep(momentEvery)
		assert.Equal(t, deletionRecorded, heartbeat(102, "2"))
	})
}

func TestADeletedNodeLeavesARecordAlthoughItIsEmpty(t *testing.T) {
	records, node := &counted{}, labelled("u1", 9, labels{"kubernetes.io/hostname": "n1"})
	assert.Equal(t, deletionRecorded, review(t, deletionsOf(records, &liveNode{node: node}), node))
	r := records.live(t)
	assert.Equal(t, record.Object{UID: "u1", Version: 9}, r.Newest(), "an older state that a slow process merges later comes too late")
	assert.True(t, r.Empty())
	assert.Equal(t, "c1", r.Cluster)
	assert.Empty(t, history.Changes(r))
}

func TestTheTaintsOfADeletedNodeAreRecorded(t *testing.T) {
	records, node := &counted{}, labelled("u1", 9, nil)
	storedAs(t, records, remembered("u1", 5, labels{"maintenance:NoExecute": "disk", "tenant:NoSchedule": "blue"}))
	node.Spec.Taints = []corev1.Taint{{Key: "maintenance", Value: "disk", Effect: corev1.TaintEffectNoExecute}, {Key: "added", Effect: corev1.TaintEffectNoSchedule}}
	assert.Equal(t, deletionRecorded, review(t, deletionsOf(records, &liveNode{node: node}), node))
	assert.Equal(t, labels{"maintenance:NoExecute": "disk", "added:NoSchedule": ""}, records.live(t).Items(), "what is there, what is new, and not what a client removed")
}

func TestAnEditJustBeforeADeletionIsRecordedWithItsHistory(t *testing.T) {
	records := &counted{}
	prev := history.Append(remembered("u1", 4, labels{"k": "u"}), remembered("u1", 5, labels{"k": "v"}), func(string, history.Values) history.Cause {
		return history.Cause{Actor: "ansible", Time: metav1.Unix(1_700_000_000, 0)}
	})
	storedAs(t, records, prev)
	node := labelled("u1", 6, labels{"k": "w"})
	stamp := metav1.Unix(1_800_000_000, 0)
	node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl-label", Time: &stamp, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:k":{}}}}`)}}
	d := deletionsOf(records, &liveNode{node: node})
	for _, want := range []deletionOutcome{deletionRecorded, deletionUnchanged} {
		assert.Equal(t, want, review(t, d, node))
		changes := history.Changes(records.live(t))
		require.Len(t, changes, 2, "no entry is lost, and none is there twice")
		assert.Equal(t, "ansible", changes[0].Actor)
		assert.Equal(t, "kubectl-label", changes[1].Actor)
		assert.Equal(t, stamp.UTC(), changes[1].Time.UTC())
		assert.Equal(t, "w", *changes[1].Items["k"].To)
	}
}

func TestARecordOfAnotherClusterIsRecordedByItsValues(t *testing.T) {
	for name, prev := range map[string]func() record.Record{
		"it names another cluster": func() record.Record {
			r := remembered("x", 5, labels{"a": "1", "lost": "2"})
			r.Cluster = "another"
			return r
		},
		"it names another cluster, and is of the same object": func() record.Record {
			r := remembered("u1", 5, labels{"a": "1", "lost": "2"})
			r.Cluster = "another"
			return r
		},
		"a backup has taken the cluster back": func() record.Record { return remembered("x", 1000, labels{"a": "1", "lost": "2"}) },
		"the record of the object itself was taken from another cluster": func() record.Record {
			return remembered("u1", 1000, labels{"a": "1", "lost": "2"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			records, node := &counted{}, labelled("u1", 9, labels{"a": "new", "b": "1"})
			storedAs(t, records, prev())
			d := deletionsOf(records, &liveNode{node: node})
			assert.Equal(t, deletionRecorded, review(t, d, node))
			r := records.live(t)
			assert.Equal(t, labels{"a": "new", "b": "1", "lost": "2"}, r.Items(), "what it remembers stays, and what the Node shows is recorded")
			assert.Equal(t, []record.Object{{UID: "u1", Version: 9}}, r.Seen)
			assert.Equal(t, "c1", r.Cluster)
			assert.Equal(t, deletionUnchanged, review(t, d, node))
		})
	}
}

func TestARecordAheadOfTheFirstReadIsNotTakenForAForeignOne(t *testing.T) {
	records := &counted{}
	storedAs(t, records, remembered("u1", 20, labels{"a": "2"})) // capture was faster: it has recorded a state after the one that is read first
	nodes := &liveNode{node: labelled("u1", 9, labels{"a": "1"}), next: labelled("u1", 20, labels{"a": "2"})}
	assert.Equal(t, deletionUnchanged, review(t, deletionsOf(records, nodes), nodes.node))
	assert.Equal(t, labels{"a": "2"}, records.live(t).Items())
	assert.Zero(t, records.writes)
}

func TestWhileTheClusterIsNotKnownNoRecordIsOfAnotherOne(t *testing.T) {
	records, node := &counted{}, labelled("u1", 9, labels{"a": "2"})
	r := remembered("u1", 5, labels{"a": "1", "gone": "x"})
	storedAs(t, records, r)
	d := deletionsOf(records, &liveNode{node: node}, func(o *DeletionOptions) { o.Cluster = func() string { return "" } })
	assert.Equal(t, deletionRecorded, review(t, d, node))
	assert.Equal(t, labels{"a": "2"}, records.live(t).Items())
	assert.Equal(t, "c1", records.live(t).Cluster)
}

func TestThatNothingIsToBeWrittenIsNotBelievedToTheCache(t *testing.T) {
	for name, live := range map[string]*record.Record{
		"an operator has deleted the record":  nil,
		"an operator has imported an old one": new(remembered("u1", 5, labels{"a": "1"})),
	} {
		t.Run(name, func(t *testing.T) {
			records, node := &counted{}, labelled("u1", 9, labels{"a": "2"})
			records.cached = &store.Entry{Record: remembered("u1", 9, labels{"a": "2"}), Version: "stale"}
			if live != nil {
				storedAs(t, records, *live)
			}
			assert.Equal(t, deletionRecorded, review(t, deletionsOf(records, &liveNode{node: node}), node))
			assert.Equal(t, labels{"a": "2"}, records.live(t).Items())
			assert.Equal(t, record.Version(9), records.live(t).Newest().Version)
		})
	}
}

func TestOfTwoWritersNoneLosesAnything(t *testing.T) {
	records, node := &counted{}, labelled("u1", 9, labels{"a": "2"})
	storedAs(t, records, remembered("u0", 4, labels{"older": "1"}))
	records.hook = func() { // another process writes first
		entry, err := records.GetFromAPI(t.Context(), "n1")
		require.NoError(t, err)
		next := record.Merge(entry.Record, record.Observation{UID: "u1", Version: 8, Items: map[string]record.Item{"a": {Value: "1"}, "theirs": {Value: "x"}}})
		_, err = records.Memory.Put(t.Context(), next, entry.Version)
		require.NoError(t, err)
	}
	assert.Equal(t, deletionRecorded, review(t, deletionsOf(records, &liveNode{node: node}), node))
	r := records.live(t)
	assert.Equal(t, labels{"a": "2", "older": "1"}, r.Items(), "theirs was removed at 9")
	assert.Equal(t, []record.Object{{UID: "u0", Version: 4}, {UID: "u1", Version: 9}}, r.Seen)
}

func TestManyReviewsAtOnceWriteTheRecordOnce(t *testing.T) {
	records, node := &counted{}, labelled("u1", 9, labels{"a": "2"})
	storedAs(t, records, remembered("u1", 4, labels{"a": "1"}))
	d := deletionsOf(records, &liveNode{node: node})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { assert.True(t, d.Handle(t.Context(), deletionOf(t, node)).Allowed) })
	}
	all.Wait()
	assert.Equal(t, 1, records.writes)
	assert.Zero(t, outcomesOf(d)[deletionFailed])
}

func TestWhatAnotherMachineShowsAtItsDeletionIsKeptApart(t *testing.T) {
	records, quarantines := &counted{}, withPolicy(t, "machine: {onMismatch: quarantine}")
	prev := remembered("u1", 5, labels{"a": "1"})
	prev.Machine = record.Machine{SystemUUID: "m1"}
	prev.History = json.RawMessage(`[{"number":1,"time":"2026-05-01T12:00:00Z","labels":{"a":{"to":"1"}}}]`)
	storedAs(t, records, prev)
	node := labelled("u2", 9, labels{"own": "x"})
	node.Status.NodeInfo.SystemUUID = "m2"
	nodes := &liveNode{node: node}
	d := deletionsOf(records, nodes, quarantines)
	assert.Equal(t, deletionRecorded, review(t, d, node))
	r := records.live(t)
	require.NotNil(t, r.Quarantined)
	assert.Equal(t, labels{"a": "1"}, r.Quarantined.Items())
	assert.Len(t, history.Changes(*r.Quarantined), 1, "what is in memory has no history; the one that is stored stays")
	assert.Equal(t, labels{"own": "x"}, r.Items())

	nodes.node = labelled("u2", 10, labels{"own": "y"})
	nodes.node.Status.NodeInfo.SystemUUID = "m2"
	assert.Equal(t, deletionRecorded, review(t, d, nodes.node))
	r = records.live(t)
	assert.Equal(t, labels{"own": "y"}, r.Items())
	assert.Equal(t, labels{"a": "1"}, r.Quarantined.Items())
	assert.Len(t, history.Changes(*r.Quarantined), 1)
}

func TestAReviewIsAHintAndWhatTheAPIServerHasCounts(t *testing.T) {
	hint := labelled("u1", 9, labels{"a": "forged"})
	for name, c := range map[string]struct {
		nodes *liveNode
		want  deletionOutcome
		items labels
	}{
		"the object says something else":        {&liveNode{node: labelled("u1", 8, labels{"a": "2"})}, deletionRecorded, labels{"a": "2"}},
		"there is no such Node":                 {&liveNode{}, deletionAbsent, labels{"a": "1"}},
		"another object has the name":           {&liveNode{node: labelled("u2", 10, labels{"a": "2"})}, deletionAbsent, labels{"a": "1"}},
		"it is deleted while the work goes on":  {&liveNode{node: labelled("u1", 4, nil), next: labelled("u2", 10, nil)}, deletionUnchanged, labels{"a": "1"}},
		"the API server does not answer":        {&liveNode{err: errors.New("unreachable")}, deletionFailed, labels{"a": "1"}},
		"the version is none that there can be": {&liveNode{node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", ResourceVersion: "x", Labels: labels{"a": "2"}}}}, deletionFailed, labels{"a": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			records := &counted{}
			storedAs(t, records, remembered("u1", 5, labels{"a": "1"}))
			assert.Equal(t, c.want, review(t, deletionsOf(records, c.nodes), hint))
			assert.Equal(t, c.items, records.live(t).Items())
		})
	}
}

func TestAReviewOfADeletionNamesANodeObjectOrNone(t *testing.T) {
	const metadata = `"metadata":{"name":"n1","uid":"u1"}`
	for name, c := range map[string]struct {
		object, request string
		ok              bool
	}{
		"as the API server sends it":             {`{"kind":"Node",` + metadata + `,"spec":{}}`, "n1", true},
		"deletecollection has no name":           {`{` + metadata + `}`, "", true},
		"metadata is last":                       {`{"spec":{"taints":[{}]},"status":{"a":[1,{"metadata":{"name":"n2"}}]},` + metadata + `}`, "n1", true},
		"what follows metadata is not read":      {`{` + metadata + `,"spec":{`, "n1", true},
		"metadata stands in a status only":       {`{"status":{` + metadata + `}}`, "n1", false},
		"metadata is a list":                     {`{"metadata":["n1","u1"]}`, "n1", false},
		"metadata is cut off":                    {`{"metadata":{"name":"n1","uid":"u1"`, "n1", false},
		"the name is another than the request's": {`{` + metadata + `}`, "n2", false},
		"the name is a path":                     {`{"metadata":{"name":"../secrets/x","uid":"u1"}}`, "", false},
		"the name is too long":                   {`{"metadata":{"name":"` + strings.Repeat("n", 254) + `","uid":"u1"}}`, "", false},
		"the name is a number":                   {`{"metadata":{"name":1,"uid":"u1"}}`, "", false},
		"the name is empty":                      {`{"metadata":{"name":"","uid":"u1"}}`, "", false},
		"there is no UID":                        {`{"metadata":{"name":"n1"}}`, "n1", false},
		"the UID is too long":                    {`{"metadata":{"name":"n1","uid":"` + strings.Repeat("u", longestUID+1) + `"}}`, "n1", false},
		"the object is a list":                   {`[{` + metadata + `}]`, "n1", false},
		"the object is null":                     {`null`, "n1", false},
		"the object is empty":                    {``, "n1", false},
		"the object is nested a million deep":    {`{"a":` + strings.Repeat(`[`, 1_000_000), "n1", false},
	} {
		t.Run(name, func(t *testing.T) {
			h, ok := hinted(admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Name: c.request, OldObject: runtime.RawExtension{Raw: []byte(c.object)}}})
			assert.Equal(t, c.ok, ok)
			if ok {
				assert.Equal(t, hint{"n1", "u1"}, h)
			}
		})
	}
}

func TestWhatIsNoDeletionOfANodeIsNotWorkedOn(t *testing.T) {
	for name, change := range map[string]func(r *admission.Request){
		"a dry run":      func(r *admission.Request) { dry := true; r.DryRun = &dry },
		"an update":      func(r *admission.Request) { r.Operation = admissionv1.Update },
		"another kind":   func(r *admission.Request) { r.Kind.Kind = "Pod" },
		"a subresource":  func(r *admission.Request) { r.SubResource = "status" },
		"no object":      func(r *admission.Request) { r.OldObject.Raw = nil },
		"a name too odd": func(r *admission.Request) { r.Name = "../n1" },
	} {
		t.Run(name, func(t *testing.T) {
			nodes := &liveNode{node: labelled("u1", 9, labels{"a": "1"})}
			records := &counted{}
			request := deletionOf(t, nodes.node)
			change(&request)
			assert.True(t, deletionsOf(records, nodes).Handle(t.Context(), request).Allowed)
			assert.Zero(t, nodes.reads)
			assert.Zero(t, records.writes)
		})
	}
}

func TestARecordThatCannotBeReadIsLeftAsItIs(t *testing.T) {
	records, node := &counted{}, labelled("u1", 9, labels{"a": "1"})
	records.Tamper("n1", []byte("{"))
	var log bytes.Buffer
	d := deletionsOf(records, &liveNode{node: node}, func(o *DeletionOptions) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	for range 5 {
		assert.Equal(t, deletionFailed, review(t, d, node))
	}
	assert.Zero(t, records.writes)
	_, err := records.Get("n1")
	require.ErrorIs(t, err, store.ErrUnreadable)
	assert.LessOrEqual(t, strings.Count(log.String(), "\n"), 2, "anybody may send reviews: one line a second")
}

func TestAWriteThatFailsKeepsNoDeletionWaiting(t *testing.T) {
	records, node := &counted{err: errors.New("refused")}, labelled("u1", 9, labels{"a": "1"})
	assert.Equal(t, deletionFailed, review(t, deletionsOf(records, &liveNode{node: node}), node))
}

// leavingServer is one of two API servers at first, which goes away.
type leavingServer struct {
	liveNode
	refuses int
}

func (l *leavingServer) Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Node, error) {
	if l.refuses--; l.refuses >= 0 {
		return nil, &url.Error{Op: "Get", Err: syscall.ECONNREFUSED}
	}
	return l.liveNode.Get(ctx, name, options)
}

func TestADeletionIsRecordedThroughAnotherAPIServerIfOneGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := labelled("u1", 9, labels{"a": "1"})
		nodes := &leavingServer{liveNode: liveNode{node: node}, refuses: 3}
		assert.Equal(t, deletionRecorded, review(t, deletionsOf(&counted{}, nodes), node))
		gone := &leavingServer{liveNode: liveNode{node: node}, refuses: 1 << 30}
		began := time.Now()
		assert.Equal(t, deletionFailed, review(t, deletionsOf(&counted{}, gone), node))
		assert.Equal(t, deletionBudget, time.Since(began))
		time.Sleep(2 * lateWrite)
		synctest.Wait()
		assert.Less(t, 1<<30-gone.refuses, 200, "it ends with its caller's time")
	})
}

// hungRecords never get done with a write.
type hungRecords struct{ storetest.Memory }

func (r *hungRecords) Put(ctx context.Context, _ record.Record, _ string) (store.Entry, error) {
	<-ctx.Done()
	return store.Entry{}, ctx.Err()
}

// contended records are written by another client before each write.
type contended struct{ storetest.Memory }

func (r *contended) Put(ctx context.Context, _ record.Record, _ string) (store.Entry, error) {
	select {
	case <-time.After(time.Millisecond):
		return store.Entry{}, fmt.Errorf("put: %w", store.ErrConflict)
	case <-ctx.Done():
		return store.Entry{}, ctx.Err()
	}
}

func TestADeletionIsHeldUpForHalfOfTheTimeThatTheAPIServerWaits(t *testing.T) {
	for name, c := range map[string]struct{ waits, want time.Duration }{
		"a second, as shipped": {time.Second, 500 * time.Millisecond},
		"ten seconds":          {10 * time.Second, 5 * time.Second},
		"it does not say":      {0, 500 * time.Millisecond},
	} {
		for form, records := range map[string]WritableRecords{"no answer": &hungRecords{}, "always another writer": &contended{}} {
			t.Run(name+", "+form, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx := t.Context()
					if c.waits > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, c.waits)
						defer cancel()
					}
					began, node := time.Now(), labelled("u1", 9, labels{"a": "1"})
					response := deletionsOf(records, &liveNode{node: node}).Handle(ctx, deletionOf(t, node))
					assert.True(t, response.Allowed)
					assert.Equal(t, c.want, time.Since(began))
					time.Sleep(2 * lateWrite) // what goes on in the background ends, too
					synctest.Wait()
				})
			})
		}
	}
}

// The answer that a record was compared with first is older than a record which another process has written since.
func TestARecordThatMovedOnMeanwhileIsNotTakenForOneOfAnotherCluster(t *testing.T) {
	nodes := &liveNode{node: labelled("u1", 8, labels{"k": "a"}), next: labelled("u1", 10, labels{"k": "b"})}
	records := &counted{}
	storedAs(t, records, remembered("u1", 9, labels{"k": "a"}))
	removed := remembered("u1", 12, nil)
	removed.Entries = []record.Entry{{Key: "k", Removed: true, Version: 12}}
	records.hook = func() {
		nodes.next = labelled("u1", 12, nil)
		entry, err := records.GetFromAPI(t.Context(), "n1")
		require.NoError(t, err)
		_, err = records.Memory.Put(t.Context(), removed, entry.Version)
		require.NoError(t, err)
	}
	assert.Equal(t, deletionUnchanged, review(t, deletionsOf(records, nodes), labelled("u1", 8, nil)))
	assert.Equal(t, removed.Entries, records.live(t).Entries, "a client removed it, and no older state brings it back")
}
