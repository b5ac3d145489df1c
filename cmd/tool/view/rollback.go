package view

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/store"
)

// Rollback is what puts a Node's labels and taints back to a moment of its history. Only what has been changed since is
// touched.
type Rollback struct {
	Node  string         `json:"node"`
	To    int            `json:"to"`
	Steps []RollbackStep `json:"steps"`
}

// RollbackStep is what becomes of one label or taint.
type RollbackStep struct {
	Kind   string       `json:"kind"`
	Item   string       `json:"item"`
	Action RollbackVerb `json:"action"`
	From   *string      `json:"from,omitempty"` // the value that the Node shows
	To     *string      `json:"to,omitempty"`
	Why    string       `json:"why,omitempty"` // it is left alone
}

// RollbackVerb is what is done with a label or taint.
type RollbackVerb string

// The verbs.
const (
	Set       RollbackVerb = "set"
	Replace   RollbackVerb = "change"
	Remove    RollbackVerb = "remove"
	LeftAlone RollbackVerb = "left alone"
)

// RollbackTo plans it for a Node that is there and has a record.
func RollbackTo(s Sight, number int, w World) (Rollback, error) {
	before, err := stateBefore(s.Record.History, number)
	if err != nil {
		return Rollback{}, fmt.Errorf("roll node %q back: %w", s.Name, err)
	}
	plan := Rollback{Node: s.Name, To: number, Steps: []RollbackStep{}}
	node := capture.Metadata(s.Record, s.Node, w.Policy)
	for _, item := range slices.SortedFunc(maps.Keys(before), compareItems) {
		step := RollbackStep{Kind: kindOf(item), Item: item, From: valueIn(node.Items, item), To: before[item]}
		switch {
		case same(step.From, step.To):
			continue
		case step.To == nil:
			step.Action = Remove
		case step.From == nil:
			step.Action = Set
		default:
			step.Action = Replace
		}
		if verdict := w.Policy.Judge(node, item); !verdict.Keeps {
			step.Action, step.Why = LeftAlone, verdict.Why()
		}
		plan.Steps = append(plan.Steps, step)
	}
	return plan, nil
}

// stateBefore is what every item that was changed after the entry of that number was just after it; nil for what was not
// there. Number 0 stands for the time before the first entry.
func stateBefore(history []store.Change, number int) (map[string]*string, error) {
	if len(history) == 0 {
		return nil, fmt.Errorf("its history tells of no change")
	}
	oldest, newest := history[0].Number-1, history[len(history)-1].Number
	if number < oldest || number > newest {
		return nil, fmt.Errorf("its history reaches from %d to %d, and %d is not among these; `history` lists them", oldest, newest, number)
	}
	before := map[string]*string{}
	for _, change := range slices.Backward(history) {
		if change.Number <= number {
			break
		}
		if change.Omitted > 0 {
			return nil, fmt.Errorf("change %d was of too many labels and taints (%d) to be remembered: it can go back to %d at most", change.Number, change.Omitted, change.Number)
		}
		for item, values := range change.Items {
			before[item] = values.From
		}
	}
	return before, nil
}

func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// Plan is the change to the Node, in capture's terms.
func (r Rollback) Plan() capture.Plan {
	plan := capture.Plan{Step: capture.Complete, Give: map[string]string{}, PutRight: map[string]string{}}
	for _, step := range r.Steps {
		switch step.Action {
		case Set:
			plan.Give[step.Item] = *step.To
		case Replace:
			plan.PutRight[step.Item] = *step.To
		case Remove:
			plan.TakeBack = append(plan.TakeBack, step.Item)
		}
	}
	return plan
}

// Changes is how many labels and taints are changed, and how many are not although they should be.
func (r Rollback) Changes() (changed, leftAlone int) {
	for _, step := range r.Steps {
		if step.Action == LeftAlone {
			leftAlone++
		} else {
			changed++
		}
	}
	return changed, leftAlone
}

// Same reports whether two plans do the same.
func (r Rollback) Same(other Rollback) bool {
	return slices.EqualFunc(r.Steps, other.Steps, func(a, b RollbackStep) bool {
		return a.Item == b.Item && a.Action == b.Action && same(a.From, b.From) && same(a.To, b.To)
	})
}

// Document is for people.
func (r Rollback) Document(time.Time) Document {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{column("Action"), column("Item"), column("Key"), column("From"), column("To"), column("Why")}}
	for _, step := range r.Steps {
		table.Rows = append(table.Rows, row(string(step.Action), step.Kind, step.Item, shown(step.From), shown(step.To), orNone(step.Why)))
	}
	return Document{Tables: []*metav1.Table{table}}
}
