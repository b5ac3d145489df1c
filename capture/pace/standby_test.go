package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
)

func TestAStandbyKnowsTheWorkOfOthers(t *testing.T) {
	ci := []corev1.Taint{{Key: "dedicated", Value: "ci", Effect: corev1.TaintEffectNoSchedule}}
	for name, c := range map[string]struct {
		due      plan.Plan
		acts     bool
		record   string            // version of the record afterwards; it was 1
		items    map[string]string // of the Node afterwards
		boot     string            // that the stamp names afterwards
		progress bool
		set      int
	}{
		"the record changed":                              {record: "2", progress: true},
		"the record is as it was":                         {record: "1"},
		"a rule's taint was added":                        {due: plan.Plan{Edits: plan.TaintEdits(plan.CauseDerivedTaint, false, ci...)}, record: "1", items: map[string]string{"dedicated:NoSchedule": "ci"}, progress: true, set: 1},
		"another taint was added":                         {due: plan.Plan{Edits: plan.TaintEdits(plan.CauseDerivedTaint, false, ci...)}, record: "1", items: map[string]string{"dedicated:NoSchedule": "mine"}},
		"no taint was added":                              {due: plan.Plan{Edits: plan.TaintEdits(plan.CauseDerivedTaint, false, ci...)}, record: "1"},
		"a rule's taint was removed":                      {due: plan.Plan{Edits: plan.TaintEdits(plan.CauseDerivedTaint, true, ci...)}, record: "1", progress: true, set: 1},
		"a rule's taint is there":                         {due: plan.Plan{Edits: plan.TaintEdits(plan.CauseDerivedTaint, true, ci...)}, record: "1", items: map[string]string{"dedicated:NoSchedule": "ci"}},
		"the gate was lifted":                             {due: plan.Plan{Edits: plan.LiftGate(policy.DefaultGate)}, record: "1", progress: true, set: 1},
		"a label was restored":                            {due: plan.Plan{Edits: plan.SetItems(plan.CauseRecord, map[string]string{"k": "v"})}, record: "1", items: map[string]string{"k": "v"}, progress: true, set: 1},
		"a client set the label":                          {due: plan.Plan{Edits: plan.SetItems(plan.CauseRecord, map[string]string{"k": "v"})}, record: "1", items: map[string]string{"k": "w"}},
		"a label was corrected":                           {due: plan.Plan{Edits: plan.SetItems(plan.CauseCorrection, map[string]string{"k": "v"})}, record: "1", items: map[string]string{"k": "v"}, progress: true, set: 1},
		"a stale label was removed":                       {due: plan.Plan{Edits: plan.RemoveItems(plan.CauseCorrection, "k")}, record: "1", progress: true, set: 1},
		"a boot was noted":                                {due: plan.Plan{Boot: "2"}, record: "1", boot: "2", progress: true},
		"a boot is noted that was not due":                {record: "1", boot: "2"},
		"a boot is not due any more":                      {due: plan.Plan{Boot: "2"}, record: "1", boot: "1"},
		"this replica has acted, and the record changed":  {acts: true, record: "2"},
		"this replica has acted, and the gate was lifted": {due: plan.Plan{Edits: plan.LiftGate(policy.DefaultGate)}, acts: true, record: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStandby()
			instant := now
			assert.False(t, s.ShouldAct("n1", "1", c.due, instant))
			if c.acts {
				instant = instant.Add(StandbyDelay)
				assert.True(t, s.ShouldAct("n1", "1", c.due, instant))
			}
			setByOthers, notedByOthers := s.Settle("n1", c.record, c.items, c.boot, instant)
			assert.Len(t, setByOthers, c.set)
			assert.Equal(t, c.due.Boot != "" && c.boot == c.due.Boot, notedByOthers)
			assert.Equal(t, c.progress, s.progress.Equal(instant))
			assert.Empty(t, s.due)
		})
	}
}

func TestOneStepOfAnotherReplicaIsProgressToo(t *testing.T) {
	s, lift := NewStandby(), plan.Plan{Edits: plan.LiftGate(policy.DefaultGate)}
	s.ShouldAct("n1", "1", plan.Plan{}, now)
	assert.False(t, s.ShouldAct("n1", "2", lift, now.Add(StandbyDelay)), "the record was written, and the gate waits")
	assert.False(t, s.ShouldAct("n1", "2", lift, now.Add(2*StandbyDelay-1)))
	assert.True(t, s.ShouldAct("n1", "2", lift, now.Add(2*StandbyDelay)))
	assert.True(t, s.ShouldAct("n1", "3", lift, now.Add(2*StandbyDelay)), "this replica has written the record")
}

func TestANodeThatWaitsForAnotherReasonIsQueuedOnceInAWhile(t *testing.T) {
	s := NewStandby()
	s.ShouldAct("n1", "1", plan.Plan{}, now)
	assert.Empty(t, s.TakeOverdue(now.Add(StandbyDelay-1)))
	for i := range 3 {
		instant := now.Add(time.Duration(i+1) * StandbyDelay)
		assert.Equal(t, []string{"n1"}, s.TakeOverdue(instant))
		assert.Empty(t, s.TakeOverdue(instant.Add(StandbyDelay-1)))
	}
}
