package view

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// Forgetting is what is to be forgotten of a Node, or why it cannot be.
type Forgetting struct {
	Whole bool     // the record is deleted, and not only what it holds
	Items []string // that are forgotten, sorted

	node    string
	record  record.Record
	why     string   // why nothing can be forgotten at all
	refused []string // why some items cannot be, a line for each
	shown   []string // those of them that are forgotten once they are removed from the Node
}

// ForgettingOf plans to forget some items of a Node, or its whole record if no items are named. Items that the Node shows cannot be forgotten,
// because capture would record them again at once.
func ForgettingOf(s NodeState, items []string) Forgetting {
	f := Forgetting{node: s.Name}
	switch {
	case s.Unreadable != nil && len(items) > 0:
		f.why = fmt.Sprintf("the record cannot be read (%v); it can be forgotten as a whole only", s.Unreadable)
		return f
	case s.Unreadable != nil:
		f.Whole = true
		return f
	case s.Record == nil:
		f.why = "there is no record"
		return f
	}
	f.record = *s.Record
	if len(items) == 0 {
		items = sortedItems(s.Record.Items())
		if s.Node == nil {
			f.Whole, f.Items = true, items
			return f
		}
	}
	if s.Record.Quarantined != nil {
		f.why = "another machine has taken the name, and no operator has decided yet which machine owns the record"
		if !s.Record.Isolated() {
			f.why = "labels of the record of node " + s.Record.Followed + " wait for an operator"
		}
		f.why += ": nodekeep accept " + s.Name + " --machine old|new"
		return f
	}
	items = slices.Clone(items)
	slices.SortFunc(items, compareItems)
	for _, item := range slices.Compact(items) {
		switch e, known := s.Record.Entry(item); {
		case !known || e.Removed:
			f.refused = append(f.refused, "  "+item+": "+s.whyNotRecorded(item))
		case s.shows(item) && !e.NotShown:
			f.refused, f.shown = append(f.refused, "  "+item+": the Node shows it, and capture would record it again at once"), append(f.shown, item)
		default:
			f.Items = append(f.Items, item)
		}
	}
	return f
}

// shows reports whether the live Node has an item, whatever its value.
func (s NodeState) shows(item string) bool {
	if s.Node == nil {
		return false
	}
	if annotation, ok := record.Annotation(item); ok {
		_, is := s.Node.Annotations[annotation]
		return is
	}
	_, is := observe.Of(s.Node).Items[item]
	return is
}

// whyNotRecorded reports where an item that is not recorded may be.
func (s NodeState) whyNotRecorded(item string) string {
	for other := range s.Record.Items() {
		if key, _, is := strings.Cut(other, ":"); is && key == item {
			return "no label of that key is recorded; the taint is called " + other
		}
	}
	if s.shows(item) {
		return "it is not recorded; it is only on the Node"
	}
	return "it is not recorded"
}

// Err returns why nothing can be forgotten; nil where something can be, and all that is wished.
func (f Forgetting) Err() error {
	if f.why != "" {
		return fmt.Errorf("nothing of node %q can be forgotten: %s", f.node, f.why)
	}
	if len(f.refused) == 0 {
		return nil
	}
	lines := append([]string{fmt.Sprintf("of node %q, these cannot be forgotten, so nothing is:", f.node)}, f.refused...)
	if len(f.shown) > 0 {
		lines = append(lines, "to forget it, remove it from the Node:")
		remove := map[string]string{}
		for _, item := range f.shown {
			remove[kindOf(item)] += " " + item + "-"
		}
		for _, kind := range slices.Sorted(maps.Keys(remove)) {
			lines = append(lines, "  kubectl "+kind+" node "+f.node+remove[kind])
		}
	}
	if len(f.Items) > 0 {
		lines = append(lines, "the rest can be forgotten by itself:", "  nodekeep forget "+f.node+" "+strings.Join(f.Items, " "))
	}
	return errors.New(strings.Join(lines, "\n"))
}

// Record returns the record that is left; not for a whole one. What capture restores in this very moment it removes again: the
// stamp distinguishes it from a client's.
func (f Forgetting) Record(r record.Record, now time.Time) record.Record {
	cause := history.Cause{Actor: "nodekeep-forget", Time: metav1.NewTime(now)}
	return history.Following(r, record.Forget(r, f.Items), func(string, history.Values) history.Cause { return cause })
}

// Document returns the plan. With a whole record goes the side that is set aside.
func (f Forgetting) Document(now time.Time) Document {
	var d Document
	d.with("Node", f.node)
	if !f.record.DeletedAt.IsZero() {
		d.with("Gone", "for "+ago(f.record.DeletedAt, now))
	}
	if f.Whole {
		d.with("Record", "would be removed as a whole")
	}
	d.Tables = append(d.Tables, recordTable("Would be forgotten", f.record, f.Items...))
	if old := f.record.Quarantined; old != nil {
		d.Tables = append(d.Tables, recordTable("Of the machine before", *old))
	}
	if f.Whole {
		for i, of := range slices.Backward(f.record.Earlier) {
			d.Tables = append(d.Tables, recordTable(fmt.Sprintf("Of earlier machine %d", i+1), of))
		}
	}
	return d
}

// Done reports what was forgotten.
func (f Forgetting) Done() string {
	if f.Whole {
		return "node/" + f.node + " forgotten"
	}
	return "node/" + f.node + ": " + strings.Join(f.Items, ", ") + " forgotten"
}
