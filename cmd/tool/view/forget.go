package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// Forgetting is what is to be forgotten of a Node, or why it cannot be.
type Forgetting struct {
	Node  string
	Whole bool     // the record goes, and not only what it holds
	Items []string // that are forgotten, sorted
	// WithheldOnly are those of which only a value goes that is withheld; the one that the Node shows stays.
	WithheldOnly []string
	Refused      []Refusal
	Why          string // why nothing can be forgotten at all

	rows []metav1.TableRow
	gone *metav1.Time
}

// Refusal is an item that cannot be forgotten, and why.
type Refusal struct {
	Item, Why string
	// Shown says that it is forgotten once it is taken off the Node.
	Shown bool
}

// ForgettingOf is what becomes of the wish to forget some items of a Node, or its whole record where none are named. What a
// Node shows, capture would record again at once.
func ForgettingOf(s Sight, items []string) Forgetting {
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
		items = sortedItems(s.Record.Remembered())
	}
	items = slices.Clone(items)
	slices.SortFunc(items, compareItems)
	for _, item := range slices.Compact(items) {
		f.forget(s, item)
	}
	return f
}

// forgetAll takes in everything that goes with the record, the side that is set aside included.
func (f *Forgetting) forgetAll(r store.Record) {
	remembered := r.Remembered()
	f.Items = sortedItems(remembered)
	for _, item := range f.Items {
		f.row(item, remembered[item], stateOf(r, item))
	}
	if r.Quarantined != nil {
		before := r.Quarantined.Remembered()
		for _, item := range sortedItems(before) {
			f.row(item, before[item], "of the machine before")
		}
	}
}

func (f *Forgetting) forget(s Sight, item string) {
	value, remembered := s.Record.Remembered()[item]
	withheld, isWithheld := s.Record.Withheld.Items[item]
	shown := s.shows(item) && !onlyWithheld(*s.Record, item)
	switch {
	case !remembered:
		f.Refused = append(f.Refused, Refusal{Item: item, Why: s.whyNotRemembered(item)})
	case shown && isWithheld:
		f.WithheldOnly = append(f.WithheldOnly, item)
		f.row(item, withheld, "withheld; what the Node shows stays")
	case shown:
		f.Refused = append(f.Refused, Refusal{Item: item, Why: "the Node shows it, and capture would record it again at once", Shown: true})
	default:
		f.Items = append(f.Items, item)
		f.row(item, value, stateOf(*s.Record, item))
	}
}

func (f *Forgetting) row(item, value, state string) {
	f.rows = append(f.rows, row(kindOf(item), item, orNone(value), state))
}

func onlyWithheld(r store.Record, item string) bool {
	_, shown := r.Shown()[item]
	return !shown
}

func stateOf(r store.Record, item string) string {
	if onlyWithheld(r, item) {
		return "withheld"
	}
	return "kept"
}

// shows reports whether the live Node has an item, whatever its value.
func (s Sight) shows(item string) bool {
	if s.Node == nil {
		return false
	}
	_, is := policy.Items(s.Node.Labels, s.Node.Spec.Taints)[item]
	return is
}

// whyNotRemembered tells where an item that is not remembered may be.
func (s Sight) whyNotRemembered(item string) string {
	if _, byRule := taintItems(s.Record.RuleTaints)[item]; byRule {
		return "it is not remembered: a rule of the policy puts it on"
	}
	for other := range s.Record.Remembered() {
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
		lines = append(lines, "what is taken off the Node is forgotten with that:")
		lines = append(lines, takeOff(f.Node, shown)...)
	}
	if rest := slices.Concat(f.Items, f.WithheldOnly); len(rest) > 0 {
		slices.SortFunc(rest, compareItems)
		lines = append(lines, "the rest can be forgotten by itself:", "  nodekeep forget "+f.Node+" "+strings.Join(rest, " "))
	}
	return fmt.Errorf("%s", strings.Join(lines, "\n"))
}

// takeOff are the commands that take items off a Node.
func takeOff(node string, items []string) (commands []string) {
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

// Record is the record that is left; not for a whole one.
func (f Forgetting) Record(r store.Record, now time.Time) store.Record {
	return capture.Forget(r, f.Items, f.WithheldOnly, by(forgetActor, now))
}

// forgetActor is who the history says has forgotten something.
const forgetActor = "nodekeep-forget"

// by is the cause of what a person does now by a command.
func by(actor string, now time.Time) store.Cause {
	return store.Cause{Actor: actor, Time: metav1.NewTime(now)}
}

// Overtaken is an error where capture was about to give back what was forgotten: what is on the Node now, it records.
func (f Forgetting) Overtaken(before, after Sight) error {
	given := slices.DeleteFunc(slices.Clone(f.Items), func(item string) bool { return before.shows(item) || !after.shows(item) })
	if len(given) == 0 {
		return nil
	}
	return fmt.Errorf("in that very moment capture has given back, and remembers again: %s; take it off the Node:\n%s",
		strings.Join(given, ", "), strings.Join(takeOff(f.Node, given), "\n"))
}

// Document is the plan.
func (f Forgetting) Document(now time.Time) Document {
	var d Document
	d.with("Node", f.Node)
	if f.gone != nil {
		d.with("Gone", "for "+ago(f.gone, now))
	}
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{column("To be forgotten"), column("Key"), column("Value"), column("State")}, Rows: f.rows}
	d.Tables = append(d.Tables, table)
	return d
}

// Done says what was forgotten.
func (f Forgetting) Done() string {
	if f.Whole {
		return "node/" + f.Node + " forgotten"
	}
	gone := slices.Concat(f.Items, f.WithheldOnly)
	slices.SortFunc(gone, compareItems)
	return "node/" + f.Node + ": " + strings.Join(gone, ", ") + " forgotten"
}
