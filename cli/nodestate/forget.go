package nodestate

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

// ForgetPlan is what is to be forgotten of a Node, or why it cannot be.
type ForgetPlan struct {
	Node   string
	Record record.Record // as it was read
	Whole  bool          // the record is deleted, and not only what it holds
	Items  []string      // that are forgotten, sorted

	reason  string   // why nothing can be forgotten at all
	refused []string // why some items cannot be, a line for each
	shown   []string // those of them that are forgotten once they are removed from the Node
}

// PlanForget plans to forget some items of a Node, or its whole record if no items are named. Items that the Node shows cannot be forgotten,
// because capture would record them again at once.
func PlanForget(s State, items []string) ForgetPlan {
	f := ForgetPlan{Node: s.Name}
	switch {
	case s.Unreadable != nil && len(items) > 0:
		f.reason = fmt.Sprintf("the record cannot be read (%v); it can be forgotten as a whole only", s.Unreadable)
		return f
	case s.Unreadable != nil:
		f.Whole = true
		return f
	case s.Record == nil:
		f.reason = "there is no record"
		return f
	}
	f.Record = *s.Record
	if len(items) == 0 {
		items = SortedItems(s.Record.Items())
		if s.Node == nil {
			f.Whole, f.Items = true, items
			return f
		}
	}
	if s.Record.Quarantined != nil {
		f.reason = "another machine has taken the name, and no operator has decided yet which machine owns the record"
		if !s.Record.WholeRecordQuarantined() {
			f.reason = "labels of the record of node " + s.Record.Followed + " wait for an operator"
		}
		f.reason += ": nodekeep accept record " + s.Name + " --machine old|new"
		return f
	}
	items = slices.Clone(items)
	slices.SortFunc(items, CompareItems)
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
func (s State) shows(item string) bool {
	if s.Node == nil {
		return false
	}
	if annotation, ok := record.Annotation(item); ok {
		_, ok := s.Node.Annotations[annotation]
		return ok
	}
	_, ok := observe.FromNode(s.Node).Items[item]
	return ok
}

// whyNotRecorded reports where an item that is not recorded may be.
func (s State) whyNotRecorded(item string) string {
	for recorded := range s.Record.Items() {
		if key, _, ok := strings.Cut(recorded, ":"); ok && key == item {
			return "no label of that key is recorded; the taint is called " + recorded
		}
	}
	if s.shows(item) {
		return "it is not recorded; it is only on the Node"
	}
	return "it is not recorded"
}

// Err returns why nothing can be forgotten; nil: all that was asked for can be.
func (f ForgetPlan) Err() error {
	if f.reason != "" {
		return fmt.Errorf("nothing of node %q can be forgotten: %s", f.Node, f.reason)
	}
	if len(f.refused) == 0 {
		return nil
	}
	lines := append([]string{fmt.Sprintf("of node %q, these cannot be forgotten, so nothing is:", f.Node)}, f.refused...)
	if len(f.shown) > 0 {
		lines = append(lines, "to forget it, remove it from the Node:")
		remove := map[string]string{}
		for _, item := range f.shown {
			remove[KindOf(item)] += " " + item + "-"
		}
		for _, kind := range slices.Sorted(maps.Keys(remove)) {
			lines = append(lines, "  kubectl "+kind+" node "+f.Node+remove[kind])
		}
	}
	if len(f.Items) > 0 {
		lines = append(lines, "the rest can be forgotten by itself:", "  nodekeep forget "+f.Node+" "+strings.Join(f.Items, " "))
	}
	return errors.New(strings.Join(lines, "\n"))
}

// Remaining returns the record that is left; not for a whole one. If capture restores a forgotten item in this very moment, it removes it again, since the
// stamp shows that no client has set it.
func (f ForgetPlan) Remaining(r record.Record, now time.Time) record.Record {
	cause := history.Cause{Actor: "nodekeep-forget", Time: metav1.NewTime(now)}
	return history.Append(r, record.Forget(r, f.Items), func(string, history.Values) history.Cause { return cause })
}
