package view

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

type set = map[string]string

var now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// world is one with that policy.
func world(p policy.Policy) World {
	return World{Policy: p, Now: now}
}

// live is a Node of object "1" with labels and taints ("key:effect").
func live(items set, change ...func(*corev1.Node)) *corev1.Node {
	shown, taints := policy.Split(items)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "1", ResourceVersion: "9", Labels: shown, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Spec:       corev1.NodeSpec{Taints: taints},
	}
	for _, c := range change {
		c(node)
	}
	return node
}

// remembered is a record of object "1".
func remembered(items set, change ...func(*store.Record)) *store.Record {
	r := &store.Record{Version: 1, Node: "n1", UID: "1", NodeResourceVersion: "5", Items: items}
	for _, c := range change {
		c(r)
	}
	return r
}

func withholding(items set) func(*store.Record) {
	return func(r *store.Record) { r.Withheld.Items = items }
}

func goneSince(ago time.Duration) func(*store.Record) {
	return func(r *store.Record) { at := metav1.NewTime(now.Add(-ago)); r.DeletedAt = &at }
}

func quarantining(items set) func(*store.Record) {
	return func(r *store.Record) { r.Quarantined = remembered(items) }
}

func sight(node *corev1.Node, record *store.Record) Sight {
	return Sight{Name: "n1", Node: node, Record: record}
}
