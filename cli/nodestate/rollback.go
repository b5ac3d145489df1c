package nodestate

import (
	"maps"
	"slices"

	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/record/history"
)

// Rollback is what returns a Node's labels and taints to a moment of its history. Only what has been changed since is touched.
type Rollback struct {
	Node  string         `json:"node"`
	To    int            `json:"to"`
	Steps []RollbackStep `json:"steps"`
}

// RollbackStep is what becomes of one label or taint.
type RollbackStep struct {
	Kind   string         `json:"kind"`
	Item   string         `json:"item"`
	Action RollbackAction `json:"action"`
	From   *string        `json:"from,omitempty"` // the value that the Node shows
	To     *string        `json:"to,omitempty"`
	Reason string         `json:"why,omitempty"` // it is left alone
}

// RollbackAction is what is done with a label or taint.
type RollbackAction string

// What is done.
const (
	Set       RollbackAction = "set"
	Replace   RollbackAction = "change"
	Remove    RollbackAction = "remove"
	LeftAlone RollbackAction = "left alone"
)

// RollbackTo returns the rollback of a Node that is there and has a record.
func RollbackTo(s State, number int, inputs plan.Inputs) (Rollback, error) {
	wanted, err := history.RollBack(*s.Record, number)
	if err != nil {
		return Rollback{}, err
	}
	rollback := Rollback{Node: s.Name, To: number, Steps: []RollbackStep{}}
	judged := s.Judge(inputs)
	for _, item := range slices.SortedFunc(maps.Keys(wanted), CompareItems) {
		step := RollbackStep{Kind: KindOf(item), Item: item, From: ValueIn(judged.Items(), item), To: wanted[item]}
		switch {
		case ptr.Equal(step.From, step.To):
			continue
		case step.To == nil:
			step.Action = Remove
		case step.From == nil:
			step.Action = Set
		default:
			step.Action = Replace
		}
		if keeps, reason := judged.Keeps(item); !keeps {
			step.Action, step.Reason = LeftAlone, reason
		}
		rollback.Steps = append(rollback.Steps, step)
	}
	return rollback, nil
}

// Change returns the change of the Node. It is the operator's, so the stamp does not list it.
func (r Rollback) Change() plan.Plan {
	change := plan.Plan{ByClient: true}
	for _, step := range r.Steps {
		switch step.Action {
		case Set, Replace:
			change.Edits = append(change.Edits, plan.SetItems(plan.CauseCorrection, map[string]string{step.Item: *step.To})...)
		case Remove:
			change.Edits = append(change.Edits, plan.RemoveItems(plan.CauseCorrection, step.Item)...)
		}
	}
	return change
}

// Count returns how many labels and taints are changed, and how many are not although they should be.
func (r Rollback) Count() (changed, leftAlone int) {
	for _, step := range r.Steps {
		if step.Action == LeftAlone {
			leftAlone++
		} else {
			changed++
		}
	}
	return changed, leftAlone
}
