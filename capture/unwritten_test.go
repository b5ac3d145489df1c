package capture

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestARecordThatCannotBeWrittenKeepsNoGateOn(t *testing.T) {
	for name, c := range map[string]struct {
		holds []any
		shows labels
		keeps labels // the record, once it can be written
	}{
		"of a Node that was never recorded": {
			[]any{node("a", "10", labels{"own": "1"}, owned("kubectl-label", "own"), gated)},
			labels{"own": "1"}, labels{"own": "1"},
		},
		"of a Node that registered again and has a client's label": {
			[]any{remembered("before", 5, labels{"k": "v", worker: ""}), node("a", "10", labels{"own": "1"}, owned("kubectl-label", "own"), gated)},
			labels{"k": "v", worker: "", "own": "1"}, labels{"k": "v", worker: "", "own": "1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "", c.holds...)
			r := w.leader()
			r.refuses = errors.New("exceeded quota")
			assert.Contains(t, r.works(), "n1", "it is tried again")
			assert.Equal(t, c.shows, w.shows(), "it is restored, and open")
			r.wrote()
			r.Enqueue("n1")
			assert.Contains(t, r.works(), "n1")
			assert.NotContains(t, r.wrote(), "patch n1", "its Node is not changed again")

			r.refuses = nil
			r.reconciles()
			assert.Equal(t, c.keeps, w.record().Items())
			r.wrote()
			r.rests()
			w.delete()
			r.reconciles()
			w.register(node("b", "500", labels{}, gated))
			r.reconciles()
			assert.Equal(t, c.keeps, w.shows(), "and the next object gets all of it")
		})
	}
}

func TestThatARecordVanishedIsReportedOnceAlsoWhereItCannotBeWrittenAgain(t *testing.T) {
	w := newCluster(t, "", node("a", "10", labels{"k": "v"}, given(labels{"k": "v"}), gated))
	r := w.leader()
	r.refuses = errors.New("exceeded quota")
	assert.Contains(t, r.works(), "n1")
	assert.Equal(t, 1, int(valueOf(t, r.Metrics.vanished)))
	assert.Contains(t, r.reported(), RecordVanished)

	r.Enqueue("n1")
	assert.Contains(t, r.works(), "n1")
	r.refuses = nil
	r.reconciles()
	assert.Equal(t, labels{"k": "v"}, w.record().Items())
	assert.Equal(t, 1, int(valueOf(t, r.Metrics.vanished)))
}

func TestARecordThatIsNearlyFullIsReportedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		labels int
		says   bool
	}{
		"1,100 of the longest labels":                         {1100, true},
		"1,500 of them, which is more than a record may have": {1500, true},
		"100 of them": {100, false},
	} {
		t.Run(name, func(t *testing.T) {
			plural := labels{}
			for i := range c.labels {
				plural[fmt.Sprintf("%s/%063d", strings.Repeat("a", 253), i)] = fmt.Sprintf("%063d", i)
			}
			n := node("a", "10", plural)
			w := newCluster(t, "", n)
			r := w.leader()
			_ = r.works()
			w.label("edit", "yes")
			_ = r.works()
			assert.Equal(t, c.says, slices.Contains(r.reported(), RecordNearlyFull))
			w.label("edit", "again")
			_ = r.works()
			assert.NotContains(t, r.reported(), RecordNearlyFull)
		})
	}
}

func TestARecordOfTwoMachinesIsWrittenBeforeTheGateIsLifted(t *testing.T) {
	w := newCluster(t, "machine: {onMismatch: quarantine}", remembered("before", 5, labels{"k": "v"}, ofMachine("m1")), node("a", "10", nil, machine("m2"), gated))
	leader := w.leader()
	leader.refuses = errors.New("exceeded quota")
	require.Contains(t, leader.works(), "n1")
	assert.True(t, gate.Present(w.node().Spec.Taints))
	assert.NotContains(t, w.shows(), "k")
}
