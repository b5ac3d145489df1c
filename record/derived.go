package record

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// RuleLabel is what a rule of the policy has made of a label or taint: a value, or its absence. It is no entry of the record: no client
// decided it for this Node, and the rule decides it anew. The record keeps it for the time in which the facts of a returning Node are not
// known yet.
type RuleLabel struct {
	Value string `json:"value"`
	Rule  string `json:"rule"`
	// Absent says that the rule removes the label or taint. Then there is no value.
	Absent bool `json:"absent,omitempty"`
	// End is when the label is removed: the rule has become false and holds it until then. Zero while the rule is true.
	End time.Time `json:"until,omitzero"`
	// Adopted says in the annotation that an operator has handed the label over to the rule (nodekeep accept adoption). The record then has to
	// forget that an operator set it, and capture removes this mark afterwards.
	Adopted bool `json:"adopted,omitempty"`
	// Version is set in the annotation. On this resourceVersion, nodekeep made the PATCH that applied the rule, or that made the item the
	// rule's. For the CREATE it is 0. A value that a client changed after it and set back belongs to the client.
	Version Version `json:"since,omitempty,string"`
	// RemovedAtCreate says in the annotation that admission removed the item from the CREATE of the Node, because of the rule. Only an Event uses
	// it.
	RemovedAtCreate bool `json:"brought,omitempty"`
}

// ShownBy reports whether items of a Node are as the rule has left them.
func (d RuleLabel) ShownBy(items map[string]string, key string) bool {
	value, shown := items[key]
	return shown != d.Absent && value == d.Value
}

// ValidFor reports whether a rule can have set the label, or removed the label or taint.
func (d RuleLabel) ValidFor(key string) bool {
	year := d.End.UTC().Year()
	kind := IsLabel(key) || d.Absent && IsTaint(key) && d.Value == ""
	return kind && Valid(key, d.Value) && (!d.Absent || d.Value == "") && len(validation.IsDNS1123Label(d.Rule)) == 0 && year >= 1 && year <= 9999
}
