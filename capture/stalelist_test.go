package capture

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/record"
)

// kubectl sends the whole list of taints, without the version that it has read.
func TestAListOfTaintsThatBringsTheGateBackRemovesNothingThatCameSince(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile []string // taints that a client adds after the gate was removed
		list      []string // what is written in addition to the gate
		shows     labels
	}{
		"a taint that was restored with the removal of the gate": {
			nil, []string{"old=1:NoSchedule", "new=1:NoSchedule"},
			labels{"tenant:NoSchedule": "blue", "old:NoSchedule": "1", "new:NoSchedule": "1"},
		},
		"a taint that a client added since": {
			[]string{"late=1:NoExecute"}, []string{"old=1:NoSchedule"},
			labels{"tenant:NoSchedule": "blue", "old:NoSchedule": "1", "late:NoExecute": "1"},
		},
		"but what was there to be read is removed": {
			nil, nil,
			labels{"tenant:NoSchedule": "blue"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "", remembered("before", 5, labels{"tenant:NoSchedule": "blue"}), node("a", "10", nil, gated, tainted("old=1:NoSchedule")))
			r := w.leads()
			assert.Equal(t, labels{"tenant:NoSchedule": "blue", "old:NoSchedule": "1"}, w.shows())
			if c.meanwhile != nil {
				w.edit(tainted(c.meanwhile...))
				r.reconciles()
			}
			for range 2 { // and once more, by the same client
				w.edit(func(n *corev1.Node) {
					n.Spec.Taints = nil
					gated(n)
					tainted(c.list...)(n)
				})
				r.reconciles()
				assert.Equal(t, c.shows, w.shows())
				assert.Equal(t, c.shows, w.record().Items())
			}
			r.wrote()
			r.rests()
		})
	}
}

// While something is refused the gate stays on. What a client removes behind it is removed all the same.
func TestATaintThatWasPutBackBehindTheGateCanBeRemoved(t *testing.T) {
	w := newCluster(t, "", remembered("before", 5, labels{"tenant:NoSchedule": "blue"}), node("a", "10", nil, gated))
	r := w.leads()
	assert.Equal(t, labels{"tenant:NoSchedule": "blue"}, w.shows())
	w.admits = func(_, after *corev1.Node) error {
		if !gate.On(after.Spec.Taints) {
			return errors.New("the gate stays")
		}
		return nil
	}
	behindIt := func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{gate.Taint()} }
	tries := func() {
		for range 10 {
			r.Enqueue("n1")
			r.works()
		}
	}
	w.edit(behindIt)
	tries()
	assert.Equal(t, labels{"tenant:NoSchedule": "blue", record.TaintKey(gate.Taint()): ""}, w.shows())
	w.edit(behindIt)
	tries()
	assert.Equal(t, labels{record.TaintKey(gate.Taint()): ""}, w.shows())
	assert.Empty(t, w.record().Items())
}
