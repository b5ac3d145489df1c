package capture

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"

	"nodekeep.dev/nodekeep/policy/policytest"
)

const (
	gate   = policy.DefaultGate
	worker = "node-role.kubernetes.io/worker"
)

var (
	now     = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	earlier = now.Add(-time.Hour).Truncate(time.Second)
)

type labels = map[string]string

// node returns a Node of the name n1 that shows these labels and taints, by key.
func node(uid types.UID, version string, items labels, modify ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: uid, ResourceVersion: version}}
	n.Labels, n.Spec.Taints = record.Split(items)
	for _, m := range modify {
		m(n)
	}
	return n
}

func gated(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, gate.Taint()) }

func deleting(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: earlier} }

func machine(systemUUID string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.NodeInfo.SystemUUID = systemUUID }
}

// tainted has the Node show taints in addition.
func tainted(written ...string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taints(written...)...) }
}

// owned says by managedFields that a manager owns labels.
func owned(manager string, keys ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		fields := map[string]any{}
		for _, key := range keys {
			fields["f:"+key] = struct{}{}
		}
		written, err := json.Marshal(map[string]any{"f:metadata": map[string]any{"f:labels": fields}})
		if err != nil {
			panic(err)
		}
		n.ManagedFields = append(n.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(string(written))})
	}
}

func annotated(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		if n.Annotations == nil {
			n.Annotations = labels{}
		}
		n.Annotations[key] = value
	}
}

// given returns the annotation which says that these values were set in the CREATE.
func given(items labels) func(*corev1.Node) {
	return stamped(record.Stamp{}.Merge(items, record.Record{}, 0))
}

func stamped(stamp record.Stamp) func(*corev1.Node) {
	return annotated(policy.StampAnnotation, stamp.String())
}

// derived returns the annotation that lists taints as derived from labels. The Node shows them.
func derived(written ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		tainted(written...)(n)
		annotated(policy.TaintsAnnotation, strings.Join(written, ","))(n)
	}
}

// withoutRoom leaves no room for annotations of nodekeep.
func withoutRoom(n *corev1.Node) { annotated("big", strings.Repeat("x", 256<<10-3))(n) }

// remembered returns a record of n1: these values, decided on that object.
func remembered(uid types.UID, version record.Version, items labels, modify ...func(*record.Record)) *record.Record {
	r := &record.Record{Node: "n1"}
	if uid != "" {
		r.Seen = []record.Object{{UID: uid, Version: version}}
	}
	for _, key := range slices.Sorted(maps.Keys(items)) {
		r.Entries = append(r.Entries, record.Entry{Key: key, Value: items[key], Version: version})
	}
	for _, m := range modify {
		m(r)
	}
	return r
}

// removed returns keys that a client removed, on that version of the Node.
func removed(version record.Version, keys ...string) func(*record.Record) {
	return func(r *record.Record) {
		for _, key := range keys {
			r.Entries = append(r.Entries, record.Entry{Key: key, Removed: true, Version: version})
		}
		slices.SortFunc(r.Entries, func(a, b record.Entry) int { return strings.Compare(a.Key, b.Key) })
	}
}

// later returns an object that registered after the one on which all was decided.
func later(uid types.UID, version record.Version) func(*record.Record) {
	return func(r *record.Record) { r.Seen = append(r.Seen, record.Object{UID: uid, Version: version}) }
}

// notShown returns keys that the newest object does not show.
func notShown(keys ...string) func(*record.Record) {
	return func(r *record.Record) {
		for i, e := range r.Entries {
			r.Entries[i].NotShown = slices.Contains(keys, e.Key)
		}
	}
}

func goneSince(t time.Time) func(*record.Record) {
	return func(r *record.Record) { r.DeletedAt = truncateToSecond(t) }
}

func ofMachine(systemUUID string) func(*record.Record) {
	return func(r *record.Record) { r.Machine.SystemUUID = systemUUID }
}

func quarantining(old *record.Record) func(*record.Record) {
	return func(r *record.Record) { r.Quarantined = old }
}

func ofCluster(uid string) func(*record.Record) {
	return func(r *record.Record) { r.Cluster = uid }
}

// taints reads taints as kubectl taint writes them.
func taints(written ...string) (read []corev1.Taint) {
	return policy.DerivedTaints(strings.Join(written, ","))
}

func loadPolicy(t testing.TB, sections string) policy.Policy {
	t.Helper()
	p, err := policy.Load([]byte(policytest.Manifest(sections)), policy.DefaultGate)
	require.NoError(t, err)
	return p
}
