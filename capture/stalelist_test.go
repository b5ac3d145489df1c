package capture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/capture/pace"
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

// A controller that writes the list it has read once, again and again: nodekeep answers less and less often, and forgets nothing.
func TestAClientThatKeepsWritingTheListThatItReadBehindTheGateMakesNodekeepForgetNothing(t *testing.T) {
	w := newCluster(t, "", remembered("before", 5, labels{"tenant:NoSchedule": "blue"}), node("a", "10", nil, gated, tainted("old=1:NoSchedule")))
	r := w.leads()
	w.edit(tainted("late=1:NoExecute"))
	r.reconciles()
	r.wrote()
	for range 200 {
		w.edit(func(n *corev1.Node) {
			n.Spec.Taints = nil
			gated(n)
			tainted("old=1:NoSchedule")(n)
		})
		r.reconciles()
		w.passes(50 * time.Millisecond)
	}
	assert.Less(t, len(r.wrote()), 20, "writes in ten seconds")
	assert.Equal(t, labels{"tenant:NoSchedule": "blue", "old:NoSchedule": "1", "late:NoExecute": "1"}, w.record().Items())
	w.passes(pace.LongestPause)
	r.reconciles()
	assert.Equal(t, labels{"tenant:NoSchedule": "blue", "old:NoSchedule": "1", "late:NoExecute": "1"}, w.shows())
}
