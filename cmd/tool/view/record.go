package view

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// Record is a record as a person reads it; for programs it holds the record as it is stored.
type Record struct {
	Node        string        `json:"node"`
	Status      Presence      `json:"status"`
	ConfigMap   string        `json:"configMap"`
	Namespace   string        `json:"namespace"`
	Record      *store.Record `json:"record"`
	Quarantined *store.Record `json:"quarantined,omitempty"` // of the machine that had the name before

	since *metav1.Time
	gated bool
}

// RecordOf is the record that was read; there must be one.
func RecordOf(s Sight, namespace string, gate policy.Gate) Record {
	r := Record{Node: s.Name, Status: s.presence(), ConfigMap: store.Name(s.Name), Namespace: namespace, Record: s.Record, Quarantined: s.Record.Quarantined, since: s.Record.DeletedAt}
	if s.Node != nil {
		r.since, r.gated = &s.Node.CreationTimestamp, gate.On(s.Node.Spec.Taints)
	}
	return r
}

// Document is for people.
func (r Record) Document(now time.Time) Document {
	var d Document
	d.with("Node", r.Node)
	d.with("Status", string(r.Status)+", for "+ago(r.since, now))
	if r.gated {
		d.with("Gate", "on: something is still to be given back")
	}
	d.with("Record", "ConfigMap "+r.ConfigMap+" in namespace "+r.Namespace)
	d.with("Of object", string(r.Record.UID))
	d.with("Of machine", machineText(r.Record.Machine))
	if r.Quarantined != nil {
		d.with("Quarantined", "another machine has taken the name; what was remembered before waits until somebody accepts a side")
		d.with("Of machine before", machineText(r.Quarantined.Machine))
	}
	d.Tables = append(d.Tables, itemsTable("Remembered", *r.Record))
	if r.Quarantined != nil {
		d.Tables = append(d.Tables, itemsTable("Remembered before", *r.Quarantined))
	}
	return d
}

// itemsTable lists what a record holds.
func itemsTable(title string, r store.Record) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{column(title), column("Key"), column("Value"), column("State")}}
	add := func(items map[string]string, state string) {
		for _, item := range sortedItems(items) {
			table.Rows = append(table.Rows, row(kindOf(item), item, orNone(items[item]), state))
		}
	}
	shown := r.Shown()
	add(shown, "kept")
	withheld := maps.Clone(r.Withheld.Items)
	add(withheld, "withheld")
	add(taintItems(r.RuleTaints), "put on by a rule")
	return table
}

func taintItems(taints []corev1.Taint) map[string]string { return policy.Items(nil, taints) }

// sortedItems lists labels before taints, each by key.
func sortedItems(items map[string]string) []string {
	return slices.SortedFunc(maps.Keys(items), compareItems)
}

func compareItems(a, b string) int {
	switch {
	case policy.IsTaint(a) == policy.IsTaint(b):
		return strings.Compare(a, b)
	case policy.IsTaint(b):
		return -1
	default:
		return 1
	}
}

// kindOf is what an item is.
func kindOf(item string) string {
	if policy.IsTaint(item) {
		return "taint"
	}
	return "label"
}

func machineText(m store.Machine) string {
	var parts []string
	for _, part := range [][2]string{{"providerID", m.ProviderID}, {"systemUUID", m.SystemUUID}, {"machineID", m.MachineID}} {
		if part[1] != "" {
			parts = append(parts, part[0]+" "+part[1])
		}
	}
	return strings.Join(parts, ", ")
}
