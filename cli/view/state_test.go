package view

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

type set = map[string]string

var now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// under returns what decisions depend on under a policy.
func under(p policy.Policy) plan.Circumstances { return plan.Circumstances{Policy: p, Now: now} }

// live returns a Node of object "1" with labels and taints ("key:effect").
func live(items set, change ...func(*corev1.Node)) *corev1.Node {
	labels, taints := record.Split(items)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "1", ResourceVersion: "9", Labels: labels, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Spec:       corev1.NodeSpec{Taints: taints},
	}
	for _, c := range change {
		c(node)
	}
	return node
}

// recorded returns a record of object "1", observed at version 5.
func recorded(items set, change ...func(*record.Record)) *record.Record {
	r := record.New("n1", record.Object{UID: "1", Version: 5}, items)
	for _, c := range change {
		c(&r)
	}
	return &r
}

// notShown says of items that the newest object does not show them.
func notShown(keys ...string) func(*record.Record) {
	return func(r *record.Record) {
		for i := range r.Entries {
			r.Entries[i].NotShown = slices.Contains(keys, r.Entries[i].Key)
		}
	}
}

// ofAnother makes it the record of another object.
func ofAnother(r *record.Record) { r.Seen[0].UID = "0" }

func goneSince(ago time.Duration) func(*record.Record) {
	return func(r *record.Record) { r.DeletedAt = now.Add(-ago) }
}

func quarantining(items set) func(*record.Record) {
	return func(r *record.Record) { r.Quarantined = recorded(items) }
}

// explained explains a Node as nodekeep explain does.
func explained(t *testing.T, s NodeState, in plan.Circumstances) Explanation {
	t.Helper()
	review, err := Registration(s, in)
	require.NoError(t, err)
	return Explain(s, review, in)
}

func state(node *corev1.Node, r *record.Record) NodeState {
	return NodeState{Name: "n1", Node: node, Record: r}
}
