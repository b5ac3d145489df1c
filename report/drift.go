package report

import (
	"cmp"
	"slices"
)

// Drift is which labels of Nodes differ from the record, or from what rules derive.
type Drift struct {
	Nodes    int            `json:"nodes"`    // with any difference
	Compared int            `json:"compared"` // Nodes
	Groups   []DriftGroup   `json:"groups"`   // the most Nodes first
	Details  []DriftedLabel `json:"labels"`   // by Node
	LeftOut  int            `json:"leftOut,omitempty"`
	// NotCompared counts Nodes whose record cannot be used.
	NotCompared int `json:"notCompared,omitempty"`
}

// DriftKind says in what a label differs.
type DriftKind string

// The kinds of drift.
const (
	NotRestored DriftKind = "notRestored" // the record or a rule has it, the Node does not, and capture is to set it
	Withheld    DriftKind = "withheld"    // the record has it, the Node does not, and the policy does not restore it
	Differs     DriftKind = "differs"     // the Node has another value than the record or the rule
	Stale       DriftKind = "stale"       // the Node has it from a record or rule that does not have it any more
	Overridden  DriftKind = "overridden"  // a client set another value than a rule derives, and the rule lets it be
	NotRecorded DriftKind = "notRecorded" // the Node has it, and the record does not have it yet
)

// DriftedLabel is a label of one Node.
type DriftedLabel struct {
	Node string    `json:"node"`
	Key  string    `json:"key"`
	Kind DriftKind `json:"kind"`
	// From says what the label is compared with: record, or rule:NAME.
	From   string  `json:"from"`
	Actual *string `json:"onNode,omitempty"`   // nil: the Node does not have it
	Want   *string `json:"expected,omitempty"` // nil: it is not to be there
}

// DriftGroup is the same drift on several Nodes.
type DriftGroup struct {
	Key   string    `json:"key"`
	Kind  DriftKind `json:"kind"`
	From  string    `json:"from"`
	Nodes int       `json:"nodes"`
	First []string  `json:"first"`
}

// Drifted counts drift.
type Drifted struct {
	drift  Drift
	groups tally[driftGroup]
}

// driftGroup is what is equal in a group.
type driftGroup struct {
	Key  string
	Kind DriftKind
	From string
}

// NewDrifted counts nothing yet.
func NewDrifted() *Drifted {
	return &Drifted{drift: Drift{Groups: []DriftGroup{}, Details: []DriftedLabel{}}, groups: tally[driftGroup]{}}
}

// NotCompared counts a Node whose record cannot be used.
func (d *Drifted) NotCompared() { d.drift.NotCompared++ }

// See counts a Node with the labels in which it differs.
func (d *Drifted) See(node string, labels []DriftedLabel) {
	d.drift.Compared++
	if len(labels) > 0 {
		d.drift.Nodes++
	}
	for _, label := range labels {
		label.Node = node
		label.Actual, label.Want = short(label.Actual), short(label.Want)
		if len(d.drift.Details) < maxDetails {
			d.drift.Details = append(d.drift.Details, label)
		} else {
			d.drift.LeftOut++
		}
		d.groups.count(driftGroup{label.Key, label.Kind, label.From}, node)
	}
}

// Drift returns what was counted.
func (d *Drifted) Drift() *Drift {
	drift := d.drift
	for group, counted := range d.groups {
		drift.Groups = append(drift.Groups, DriftGroup{Key: group.Key, Kind: group.Kind, From: group.From, Nodes: counted.nodes, First: counted.first})
	}
	slices.SortFunc(drift.Groups, func(a, b DriftGroup) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.From, b.From))
	})
	return &drift
}

// words say what a kind of drift is.
func (k DriftKind) words() string {
	words := map[DriftKind]string{
		NotRestored: "missing on the Node",
		Withheld:    "recorded, not restored",
		Differs:     "another value",
		Stale:       "no longer wanted",
		Overridden:  "a client set another value",
		NotRecorded: "not recorded yet",
	}
	return cmp.Or(words[k], string(k))
}

func (d Drift) tables() []Table {
	nodes := Table{Name: "drift", Title: "Drift", Columns: []Column{text("Nodes"), number("Count")}}
	nodes.add("as recorded and derived", d.Compared-d.Nodes)
	nodes.add("with differences", d.Nodes)
	if d.NotCompared > 0 {
		nodes.add("not compared: the record cannot be used", d.NotCompared)
	}
	groups := Table{Name: "drifted", Title: "Drift by key", Columns: []Column{text("Key"), text("Difference"), text("Compared with"), number("Nodes"), text("Such as")}}
	for _, group := range d.Groups {
		groups.add(group.Key, group.Kind.words(), group.From, group.Nodes, listIn(group.First))
	}
	details := Table{Name: "labels", Title: "Drift by Node", Columns: []Column{text("Node"), text("Key"), text("Difference"), text("On the Node"), text("Expected"), text("Compared with")}}
	for _, l := range d.Details {
		details.add(l.Node, l.Key, l.Kind.words(), valueIn(l.Actual), valueIn(l.Want), l.From)
	}
	if d.LeftOut > 0 {
		details.Note = "There are more differences, which are left out."
	}
	return []Table{nodes, groups, details}
}
