package view

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// Sight is what was read of one Node: the object, the record, or both.
type Sight struct {
	Name       string
	Node       *corev1.Node  // nil: there is none
	Record     *store.Record // nil: there is none that can be read
	Unreadable error         // why there is a record but nothing may be taken from it
}

// World is what decisions depend on beside the Node and its record.
type World struct {
	Policy  policy.Policy
	Guarded bool // the guard policies are in force
	Now     time.Time
}

// next is what capture would do about a Node that is there.
func (s Sight) next(w World) capture.Plan {
	return capture.Next(s.Record, s.Node, w.Guarded, w.Policy, w.Now)
}

// labels are those of the Node, or of one that is gone, those it is remembered with.
func (s Sight) labels() labels.Set {
	if s.Node != nil {
		return s.Node.Labels
	}
	if s.Record != nil {
		remembered, _ := policy.Split(s.Record.Remembered())
		return remembered
	}
	return nil
}

// Selected reports whether a label selector selects the Node; one that is gone by the labels it is remembered with.
func (s Sight) Selected(selector labels.Selector) bool { return selector.Matches(s.labels()) }
