package view

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// Record is a record as a person reads it; for programs it holds the record as it is stored.
type Record struct {
	Node        string          `json:"node"`
	Status      Presence        `json:"status"`
	ConfigMap   string          `json:"configMap"`
	Namespace   string          `json:"namespace"`
	Record      json.RawMessage `json:"record"`
	Quarantined json.RawMessage `json:"quarantined,omitempty"` // of the machine that had the name before

	of    record.Record
	since time.Time
	gated bool
}

// RecordOf is the record that was read; there must be one.
func RecordOf(s NodeState, namespace string, gate policy.Gate) (r Record, err error) {
	r = Record{Node: s.Name, Status: s.presence(), ConfigMap: store.Name(s.Name), Namespace: namespace, of: *s.Record, since: s.Record.DeletedAt}
	if s.Node != nil {
		r.since, r.gated = s.Node.CreationTimestamp.Time, gate.On(s.Node.Spec.Taints)
	}
	if r.Record, err = record.Encode(r.of); err == nil && r.of.Quarantined != nil {
		r.Quarantined, err = record.Encode(*r.of.Quarantined)
	}
	return r, err
}

// Document is for people.
func (r Record) Document(now time.Time) Document {
	var d Document
	d.with("Node", r.Node)
	d.with("Status", string(r.Status)+", for "+ago(r.since, now))
	if r.gated {
		d.with("Gate", "on: something is still to be restored")
	}
	d.with("Record", "ConfigMap "+r.ConfigMap+" in namespace "+r.Namespace)
	d.with("Of object", string(r.of.Newest().UID))
	d.with("Of machine", machineText(r.of.Machine))
	d.Tables = append(d.Tables, itemsTable("Remembered", r.of))
	if old := r.of.Quarantined; old != nil {
		d.with("Quarantined", "another machine has taken the name; what was remembered before waits until somebody accepts a side")
		d.with("Of machine before", machineText(old.Machine))
		d.Tables = append(d.Tables, itemsTable("Remembered before", *old))
	}
	return d
}

// itemsTable lists what a record holds.
func itemsTable(title string, r record.Record) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{column(title), column("Key"), column("Value"), column("State")}}
	for _, e := range remembered(r) {
		table.Rows = append(table.Rows, row(kindOf(e.Key), e.Key, orNone(e.Value), stateOf(e)))
	}
	return table
}

// remembered lists the entries that are no removals, labels before taints.
func remembered(r record.Record) []record.Entry {
	entries := slices.DeleteFunc(slices.Clone(r.Entries), func(e record.Entry) bool { return e.Removed })
	slices.SortFunc(entries, func(a, b record.Entry) int { return compareItems(a.Key, b.Key) })
	return entries
}

func stateOf(e record.Entry) string {
	if e.NotShown {
		return "remembered, not shown on the Node"
	}
	return "remembered"
}

// sortedItems lists labels before taints, each by key.
func sortedItems[V any](items map[string]V) []string {
	return slices.SortedFunc(maps.Keys(items), compareItems)
}

func compareItems(a, b string) int {
	switch {
	case record.IsTaint(a) == record.IsTaint(b):
		return strings.Compare(a, b)
	case record.IsTaint(b):
		return -1
	default:
		return 1
	}
}

// kindOf is what an item is.
func kindOf(item string) string {
	if record.IsTaint(item) {
		return "taint"
	}
	return "label"
}

func machineText(m record.Machine) string {
	var parts []string
	for _, part := range [][2]string{{"providerID", m.ProviderID}, {"systemUUID", m.SystemUUID}, {"machineID", m.MachineID}} {
		if part[1] != "" {
			parts = append(parts, part[0]+" "+part[1])
		}
	}
	return strings.Join(parts, ", ")
}
