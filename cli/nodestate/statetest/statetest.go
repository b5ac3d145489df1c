// Package statetest makes Nodes, records and policies, for tests.
package statetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/record"
)

// Set are labels, or items.
type Set = map[string]string

// Now returns when decisions are made.
func Now() time.Time { return time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC) }

// Under returns what decisions depend on under a policy.
func Under(p policy.Policy) plan.Inputs { return plan.Inputs{Policy: p, Now: Now()} }

// Live returns a Node of object "1" with labels and taints ("key:effect").
func Live(items Set, change ...func(*corev1.Node)) *corev1.Node {
	labels, taints := record.Split(items)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "1", ResourceVersion: "9", Labels: labels, CreationTimestamp: metav1.NewTime(Now().Add(-time.Hour))},
		Spec:       corev1.NodeSpec{Taints: taints},
	}
	for _, c := range change {
		c(node)
	}
	return node
}

// Recorded returns a record of object "1", observed at version 5.
func Recorded(items Set, change ...func(*record.Record)) *record.Record {
	r := record.New("n1", record.Object{UID: "1", Version: 5}, items)
	for _, c := range change {
		c(&r)
	}
	return &r
}

// NotShown says of items that the newest object does not show them.
func NotShown(keys ...string) func(*record.Record) {
	return func(r *record.Record) {
		for i := range r.Entries {
			r.Entries[i].NotShown = slices.Contains(keys, r.Entries[i].Key)
		}
	}
}

// OfAnother makes it the record of another object.
func OfAnother(r *record.Record) { r.Seen[0].UID = "0" }

// GoneSince makes it the record of a Node that was deleted so long ago.
func GoneSince(age time.Duration) func(*record.Record) {
	return func(r *record.Record) { r.DeletedAt = Now().Add(-age) }
}

// Quarantining sets a record with these items aside.
func Quarantining(items Set) func(*record.Record) {
	return func(r *record.Record) { r.Quarantined = Recorded(items) }
}

// State returns that of Node "n1".
func State(node *corev1.Node, r *record.Record) nodestate.State {
	return nodestate.State{Name: "n1", Node: node, Record: r}
}

// Load reads sections of a policy file; without any it is the default.
func Load(t *testing.T, sections string) policy.Policy {
	t.Helper()
	p, err := policy.Load([]byte(policytest.Manifest(sections)), policy.DefaultGate)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Present returns a Node and the record of it.
func Present(name string, labels map[string]string, taints ...corev1.Taint) nodestate.State {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "1", ResourceVersion: "5", Labels: labels}, Spec: corev1.NodeSpec{Taints: taints}}
	s := nodestate.State{Name: name, Node: node, Record: Recorded(record.Join(labels, taints))}
	s.Record.Node = name
	return s
}

// Past returns the record of a deleted Node.
func Past(name string, base time.Duration, items map[string]string) nodestate.State {
	s := nodestate.State{Name: name, Record: Recorded(items, GoneSince(base))}
	s.Record.Node = name
	return s
}

// Taint returns one of effect NoSchedule.
func Taint(key, value string) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule}
}

// RuledBy lists labels of a Node as those of a rule.
func RuledBy(rule string, labels Set) func(*corev1.Node) {
	ruleLabels := map[string]record.RuleLabel{}
	for key, value := range labels {
		ruleLabels[key] = record.RuleLabel{Value: value, Rule: rule, Version: 8}
	}
	return func(n *corev1.Node) { n.Annotations = policy.AnnotationContent{Labels: ruleLabels}.Annotations(0) }
}

// EntryOf returns an entry of managedFields.
func EntryOf(manager string, keys ...string) metav1.ManagedFieldsEntry {
	fields := map[string]string{}
	for _, key := range keys {
		fields[fmt.Sprintf("%q:{}", "f:"+key)] = ""
	}
	labels := strings.Join(slices.Sorted(maps.Keys(fields)), ",")
	return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{` + labels + `}}}`)}
}
