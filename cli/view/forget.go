package view

import (
	"fmt"
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
	Node    string
	Whole   bool     // the record is deleted, and not only what it holds
	Items   []string // that are forgotten, sorted
	Refused []Refusal
	Why     string // why nothing can be forgotten at all

	rows []metav1.TableRow
	gone time.Time
}

// Refusal is an item that cannot be forgotten, and why.
type Refusal struct {
	Item, Why string
	// Shown says that it is forgotten once it is removed from the Node.
	Shown bool
}

// ForgettingOf is what becomes of the wish to forget some items of a Node, or its whole record where none are named. What a
// Node shows, capture would record again at once.
func ForgettingOf(s NodeState, items []string) Forgetting {
	f := Forgetting{Node: s.Name}
	switch {
	case s.Unreadable != nil && len(items) > 0:
		f.Why = fmt.Sprintf("the record cannot be read (%v); it can be forgotten as a whole only", s.Unreadable)
		return f
	case s.Unreadable != nil:
		f.Whole = true
		return f
	case s.Record == nil:
		f.Why = "nothing is remembered"
		return f
	}
	f.gone = s.Record.DeletedAt
	if len(items) == 0 && s.Node == nil {
		f.Whole = true
		f.forgetAll(*s.Record)
		return f
	}
	if s.Record.Quarantined != nil {
		f.Why = "another machine has taken the name, and nobody has decided yet to whom belongs what is remembered: nodekeep accept " + s.Name + " --machine old|new"
		return f
	}
	if len(items) == 0 {
		items = sortedItems(s.Record.Items())
	}
	items = slices.Clone(items)
	slices.SortFunc(items, compareItems)
	for _, item := range slices.Compact(items) {
		f.forget(s, item)
	}
	return f
}

// forgetAll takes in everything that is deleted with the record, the side that is set aside included.
func (f *Forgetting) forgetAll(r record.Record) {
	for _, e := range remembered(r) {
		f.Items = append(f.Items, e.Key)
		f.row(e, stateOf(e))
	}
	if r.Quarantined != nil {
		for _, e := range remembered(*r.Quarantined) {
			f.row(e, "of the machine before")
		}
	}
}

func (f *Forgetting) forget(s NodeState, item string) {
	switch e, known := s.Record.Entry(item); {
	case !known || e.Removed:
		f.Refused = append(f.Refused, Refusal{Item: item, Why: s.whyNotRemembered(item)})
	case s.shows(item) && !e.NotShown:
		f.Refused = append(f.Refused, Refusal{Item: item, Why: "the Node shows it, and capture would record it again at once", Shown: true})
	default:
		f.Items = append(f.Items, item)
		f.row(e, stateOf(e))
	}
}

func (f *Forgetting) row(e record.Entry, state string) {
	f.rows = append(f.rows, metav1.TableRow{Cells: []any{kindOf(e.Key), e.Key, shown(&e.Value), state}})
}

// shows reports whether the live Node has an item, whatever its value.
func (s NodeState) shows(item string) bool {
	if s.Node == nil {
		return false
	}
	_, is := observe.Of(s.Node).Items[item]
	return is
}

// whyNotRemembered tells where an item that is not remembered may be.
func (s NodeState) whyNotRemembered(item string) string {
	for other := range s.Record.Items() {
		if key, _, is := strings.Cut(other, ":"); is && key == item {
			return "no label of that key is remembered; the taint is called " + other
		}
	}
	if s.shows(item) {
		return "it is not remembered; it is only on the Node"
	}
	return "it is not remembered"
}

// Err is why nothing can be forgotten; nil where something can be, and all that is wished.
func (f Forgetting) Err() error {
	if f.Why != "" {
		return fmt.Errorf("nothing of node %q was forgotten: %s", f.Node, f.Why)
	}
	if len(f.Refused) == 0 {
		return nil
	}
	lines := []string{fmt.Sprintf("nothing of node %q was forgotten:", f.Node)}
	var shown []string
	for _, refusal := range f.Refused {
		lines = append(lines, "  "+refusal.Item+": "+refusal.Why)
		if refusal.Shown {
			shown = append(shown, refusal.Item)
		}
	}
	if len(shown) > 0 {
		lines = append(lines, "to forget it, remove it from the Node:")
		lines = append(lines, removals(f.Node, shown)...)
	}
	if len(f.Items) > 0 {
		lines = append(lines, "the rest can be forgotten by itself:", "  nodekeep forget "+f.Node+" "+strings.Join(f.Items, " "))
	}
	return fmt.Errorf("%s", strings.Join(lines, "\n"))
}

// removals are the commands that remove items from a Node.
func removals(node string, items []string) (commands []string) {
	for _, kind := range []string{"label", "taint"} {
		var off []string
		for _, item := range items {
			if kindOf(item) == kind {
				off = append(off, item+"-")
			}
		}
		if len(off) > 0 {
			commands = append(commands, "  kubectl "+kind+" node "+node+" "+strings.Join(off, " "))
		}
	}
	return commands
}

// Record is the record that is left; not for a whole one. What capture restores in this very moment it removes again: the
// stamp tells it from a client's.
func (f Forgetting) Record(r record.Record, now time.Time) record.Record {
	cause := history.Cause{Actor: "nodekeep-forget", Time: metav1.NewTime(now)}
	return history.Following(r, record.Forget(r, f.Items), func(string, history.Values) history.Cause { return cause })
}

// Document is the plan.
func (f Forgetting) Document(now time.Time) Document {
	var d Document
	d.with("Node", f.Node)
	if !f.gone.IsZero() {
		d.with("Gone", "for "+ago(f.gone, now))
	}
	table := tableOf("To be forgotten", "Key", "Value", "State")
	table.Rows = f.rows
	d.Tables = append(d.Tables, table)
	return d
}

// Done says what was forgotten.
func (f Forgetting) Done() string {
	if f.Whole {
		return "node/" + f.Node + " forgotten"
	}
	return "node/" + f.Node + ": " + strings.Join(f.Items, ", ") + " forgotten"
}
