//go:build oldcore

package capture

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// simModel is what people want, told by what they did. An edit that nobody promises to keep leaves more than one answer
// right: it was made on an object that went before capture had seen it, or capture ended before it had written it down.
type simModel struct {
	settled map[simLabel]string // what people wanted at the end of the last round
	edits   map[simLabel][]*edit
	open    map[types.UID][]string // labels taken off an object that may come back, on it or on a later one
}

type simLabel struct{ node, key string }

// unset is the value of a label that nobody wants. No label can have it.
const unset = "(unset)"

type edit struct {
	object      types.UID
	version     int // the object's, with the edit
	value       string
	kept        bool // capture must have it
	mayComeBack bool // cannot be told from a loss, or from what admission did
}

func newSimModel() *simModel {
	return &simModel{settled: map[simLabel]string{}, edits: map[simLabel][]*edit{}, open: map[types.UID][]string{}}
}

func (m *simModel) set(n *simNode, key, value string, open bool) {
	label := simLabel{n.name, key}
	m.edits[label] = append(m.edits[label], &edit{object: n.uid, version: n.version, value: value, mayComeBack: open})
}

func (m *simModel) unset(n *simNode, key string, mayComeBack bool) {
	label := simLabel{n.name, key}
	m.edits[label] = append(m.edits[label], &edit{object: n.uid, version: n.version, value: unset, mayComeBack: mayComeBack})
}

// keeps notes that capture must have whatever was done to an object up to a version.
func (m *simModel) keeps(node string, object types.UID, version int) {
	for _, key := range simKeys {
		for _, e := range m.edits[simLabel{node, key}] {
			if e.object == object && e.version <= version {
				e.kept = true
			}
		}
	}
}

// answers are the values that are right for a label.
func (m *simModel) answers(label simLabel) []string {
	before, known := m.settled[label]
	if !known {
		before = unset
	}
	answers := []string{before}
	since := map[types.UID][]string{} // what was right since each object came
	for _, e := range m.edits[label] {
		if _, known := since[e.object]; !known {
			since[e.object] = answers
		}
		since[e.object] = append(slices.Clone(since[e.object]), e.value)
		switch {
		case e.mayComeBack:
			answers = slices.Concat(answers, since[e.object])
		case e.kept:
			answers = []string{e.value}
		default:
			answers = append(slices.Clone(answers), e.value)
		}
	}
	slices.Sort(answers)
	return slices.Compact(answers)
}

// settle closes a round: the answer is known, and it is right.
func (m *simModel) settle(label simLabel, value string) {
	m.settled[label] = value
	delete(m.edits, label)
}

// touched reports whether a person did anything to the label on this very object in this round.
func (m *simModel) touched(n *simNode, key string) bool {
	return slices.ContainsFunc(m.edits[simLabel{n.name, key}], func(e *edit) bool { return e.object == n.uid })
}

// tookOff reports whether the last that a person did to the label was to take it off this very object, for good.
func (m *simModel) tookOff(n *simNode, key string) bool {
	edits := m.edits[simLabel{n.name, key}]
	if len(edits) == 0 {
		return false
	}
	last := edits[len(edits)-1]
	return last.object == n.uid && last.value == unset && !last.mayComeBack
}
