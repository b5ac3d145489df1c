package view

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// NodeState is what was read of one Node: the object, the record, or both.
type NodeState struct {
	Name       string
	Node       *corev1.Node   // nil: there is none
	Record     *record.Record // nil: there is none that can be read
	Entry      store.Entry    // that the record was read from, with its version
	Unreadable error          // why there is a record but nothing may be taken from it

	Follows  *ExplainedFollow // nil: it has a record, or the policy follows none
	followed *record.Record   // what it begins with, where it follows
}

// maxWrites limits the writes of the record before the change of a Node. One write resets it, one accepts a side, one merges.
const maxWrites = 5

// settled returns what capture does with an existing Node. The first result is the next action. The others are the record once capture has written it
// (nil: none), and the later change of the Node.
func (s NodeState) settled(in plan.Circumstances) (first capture.Action, r *record.Record, last capture.Action) {
	node, entry, found := observe.OfKeeping(s.Node, in.Policy.Annotations()), store.Entry{Accepted: s.Entry.Accepted}, s.Record != nil
	if found {
		entry.Record, r = *s.Record, s.Record
	} else if s.followed != nil {
		entry.Record = *s.followed
	}
	for i := range maxWrites {
		last = capture.Decide(entry, found, node, capture.Present, in)
		if i == 0 {
			first = last
		}
		if last.Write == nil {
			break
		}
		r, entry, found = last.Write, store.Entry{Record: *last.Write}, true
	}
	return first, r, last
}

// Written returns the record of an existing Node once capture has written it. It is nil if there is nothing to write.
func (s NodeState) Written(in plan.Circumstances) *record.Record {
	if _, r, _ := s.settled(in); r != s.Record {
		return r
	}
	return nil
}

// itemsOf returns what a record holds; nil holds nothing.
func itemsOf(r *record.Record) map[string]string { return ptr.Deref(r, record.Record{}).Items() }

// record returns the record that was read; an empty one where there is none.
func (s NodeState) record() record.Record { return ptr.Deref(s.Record, record.Record{}) }

// machine returns the one that the Node is on, or was on when it was last observed.
func (s NodeState) machine() record.Machine {
	if s.Node != nil {
		return observe.Of(s.Node).Machine
	}
	return s.record().Machine
}

// labels returns those of the Node or, of one that is deleted, the recorded ones.
func (s NodeState) labels() labels.Set {
	if s.Node != nil {
		return s.Node.Labels
	}
	recorded, _ := record.Split(itemsOf(s.Record))
	return recorded
}

// Selected reports whether a label selector selects the Node; one that is deleted by its recorded labels.
func (s NodeState) Selected(selector labels.Selector) bool { return selector.Matches(s.labels()) }
