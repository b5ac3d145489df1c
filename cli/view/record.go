package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// Record is a record as text; for programs it holds the record as it is stored.
type Record struct {
	Node        string            `json:"node"`
	Status      nodestate.Status  `json:"status"`
	ConfigMap   string            `json:"configMap"`
	Namespace   string            `json:"namespace"`
	Record      json.RawMessage   `json:"record"`
	Quarantined json.RawMessage   `json:"quarantined,omitempty"` // of the machine that had the name before
	Earlier     []json.RawMessage `json:"earlier,omitempty"`     // of machines that had the name before, and come with these again
	Violations  []string          `json:"violations,omitempty"`  // rules of governance that the labels of a Node which is there break

	record record.Record
	start  time.Time
	gated  bool
}

// RecordOf returns the record that was read; there must be one. Of the policy, only the gate, the rules for labels and the section
// governance are used.
func RecordOf(s nodestate.State, namespace string, inputs plan.Inputs) (r Record, err error) {
	r = Record{Node: s.Name, Status: s.Status(inputs), ConfigMap: store.Name(s.Name), Namespace: namespace, record: *s.Record, start: s.Record.DeletedAt}
	if s.Node != nil {
		r.start, r.gated, r.Violations = s.Node.CreationTimestamp.Time, inputs.Policy.Gate().Present(s.Node.Spec.Taints), violationsText(s, inputs)
	}
	if r.Record, err = record.Encode(r.record); err == nil && r.record.Quarantined != nil {
		r.Quarantined, err = record.Encode(*r.record.Quarantined)
	}
	for _, old := range r.record.Earlier {
		earlier, wrong := record.Encode(old)
		r.Earlier, err = append(r.Earlier, earlier), cmp.Or(err, wrong)
	}
	return r, err
}

// Document returns the answer as text.
func (r Record) Document(now time.Time) Document {
	var d Document
	d.addFact("Node", r.Node)
	d.addFact("Status", string(r.Status)+", for "+age(r.start, now))
	if r.gated {
		d.addFact("Gate", "on: something is still to be restored")
	}
	d.addFact("Governance", strings.Join(r.Violations, "; "))
	d.addFact("Record", "ConfigMap "+r.ConfigMap+" in namespace "+r.Namespace)
	d.addFact("Of object", string(r.record.Newest().UID))
	d.addFact("Of machine", machineText(r.record.Machine))
	d.Tables = append(d.Tables, recordTable("Recorded", r.record))
	if len(r.record.RuleLabels) > 0 {
		d.Tables = append(d.Tables, derivedTable(r.record.RuleLabels))
	}
	if r.record.Followed != "" {
		d.addFact("Followed", "the record of node "+r.record.Followed+": this machine had that name before")
	}
	if old := r.record.Quarantined; old != nil && !r.record.WholeRecordQuarantined() {
		d.addFact("Waits", "labels of the record of node "+r.record.Followed+" that no kubelet may set, for an operator: nodekeep accept record "+r.Node+" --machine old|new")
		d.Tables = append(d.Tables, recordTable("Waits for nodekeep accept record", *old))
	} else if old != nil {
		d.addFact("Quarantined", "another machine has taken the name; what was recorded before waits until an operator accepts a side")
		d.addFact("Of machine before", machineText(old.Machine))
		d.Tables = append(d.Tables, recordTable("Recorded before", *old))
	}
	for i, earlier := range slices.Backward(r.record.Earlier) {
		d.addFact(fmt.Sprintf("Earlier machine %d", i+1), machineText(earlier.Machine)+", until "+age(earlier.DeletedAt, now)+" ago")
		d.Tables = append(d.Tables, recordTable(fmt.Sprintf("Of earlier machine %d", i+1), earlier))
	}
	return d
}

// recordTable lists what a record holds and, where some are named, only these.
func recordTable(title string, r record.Record, keys ...string) *metav1.Table {
	values, states := map[string]string{}, map[string]string{}
	for _, e := range r.Entries {
		if e.Removed || len(keys) > 0 && !slices.Contains(keys, e.Key) {
			continue
		}
		values[e.Key], states[e.Key] = e.Value, "recorded"
		if e.NotShown {
			states[e.Key] = "recorded, not shown on the Node"
		}
	}
	return itemsTable(title, []string{"Value", "State"}, values, states)
}

// derivedTable lists the labels that rules set last.
func derivedTable(ruleLabels map[string]record.RuleLabel) *metav1.Table {
	table := tableOf("Label of rules", "Value", "Rule", "Held until")
	for _, key := range slices.Sorted(maps.Keys(ruleLabels)) {
		label, end := ruleLabels[key], ""
		if !label.End.IsZero() {
			end = label.End.UTC().Format(time.RFC3339)
		}
		addRow(table, key, nodestate.FormatValue(&label.Value), label.Rule, orDash(end))
	}
	return table
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

// QuarantinePlan shows the two machines of a quarantined record, between which an operator decides.
type QuarantinePlan struct {
	Node      string
	Old, New  MachineRecord
	Accepted  store.Side // that an operator has accepted already; empty while nobody has
	DeletedAt time.Time
}

// MachineRecord is a machine and its record.
type MachineRecord struct {
	Machine record.Machine
	Items   map[string]string
}

// QuarantinePlanOf returns the two sides of a record that is quarantined.
func QuarantinePlanOf(entry store.Entry) QuarantinePlan {
	r, old := entry.Record, *entry.Record.Quarantined
	return QuarantinePlan{
		Node: r.Node, Accepted: entry.AcceptedSide, DeletedAt: r.DeletedAt,
		Old: MachineRecord{old.Machine, old.Items()}, New: MachineRecord{r.Machine, r.Items()},
	}
}

// Document puts the two next to each other.
func (s QuarantinePlan) Document(now time.Time) Document {
	var d Document
	d.addFact("Node", s.Node)
	if !s.DeletedAt.IsZero() {
		d.addFact("Gone", "for "+age(s.DeletedAt, now))
	}
	d.addFact("Old machine", orDash(machineText(s.Old.Machine)))
	d.addFact("New machine", orDash(machineText(s.New.Machine)))
	d.Tables = append(d.Tables, itemsTable("Recorded", []string{"Old", "New"}, s.Old.Items, s.New.Items))
	return d
}

// Question explains what accepting a side means.
func (s QuarantinePlan) Question(side store.Side) string {
	if side == store.OldMachine {
		return fmt.Sprintf("Give the machine that has the name %q now the record of the old one?", s.Node)
	}
	return fmt.Sprintf("Forget the record of the old machine of the name %q?", s.Node)
}
