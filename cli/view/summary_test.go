package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

func TestASummaryCountsTheItemsAndSaysWhoChangedThemLast(t *testing.T) {
	before := *recorded(set{"a": "1", "b": "2", "t:NoSchedule": ""}, notShown("b"))
	r := history.Following(before, record.Forget(before, []string{"a"}), func(string, history.Values) history.Cause {
		return history.Cause{Actor: "alice", Time: metav1.NewTime(now.Add(-time.Minute))}
	})
	r.Derived = map[string]record.Derived{"tier": {Value: "gold", Rule: "all"}, "rack": {Absent: true, Rule: "all"}}
	summary := SummaryOf(state(live(set{"t:NoSchedule": ""}), &r), under(policy.Default()))
	assert.Equal(t, Summary{
		Name: "n1", Status: Present, Since: now.Add(-time.Hour), UID: "1", Labels: 1, Taints: 1, NotShown: 1, RuleLabels: 1,
		LastChange: now.Add(-time.Minute), ChangedBy: "alice", Current: false, Why: "change not recorded yet",
	}, summary)
}

func TestANodeOfWhichNothingIsKeptIsNotUnrecorded(t *testing.T) {
	for name, c := range map[string]struct {
		state NodeState
		want  Presence
	}{
		"a Node of which nothing is kept":   {state(live(nil), nil), Present},
		"a Node of which something is kept": {state(live(set{"a": "1"}), nil), Unrecorded},
		"a Node with a record":              {state(live(nil), recorded(set{"a": "1"})), Present},
		"neither a Node nor a record":       {NodeState{Name: "n1"}, Forgotten},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, SummaryOf(c.state, under(policy.Default())).Status)
		})
	}
}

// ofNodekeep says by managedFields that nodekeep has set label a.
func ofNodekeep(node *corev1.Node) {
	node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: observe.FieldManager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:a":{}}}}`)}}
}

// ofArgo says that a tool owned label a.
func ofArgo(r *record.Record) { r.Entries[0].Owners = "Apply argocd-controller" }

func TestWhatIsLeftToDoAboutANode(t *testing.T) {
	both := set{"a": "1", "t:NoSchedule": ""}
	for name, c := range map[string]struct {
		state NodeState
		want  string
	}{
		"nothing":                           {state(live(both), recorded(both)), ""},
		"nothing of a deleted one":          {state(nil, recorded(both, goneSince(time.Hour))), ""},
		"nobody has seen it go":             {state(nil, recorded(both)), "not marked as deleted"},
		"no record":                         {state(live(both), nil), "not recorded yet"},
		"nothing to be remembered":          {state(live(nil), nil), ""},
		"another value":                     {state(live(set{"a": "2", "t:NoSchedule": ""}), recorded(both)), "change not recorded yet"},
		"a new object that lacks something": {state(live(nil), recorded(both, ofAnother)), "2 to restore"},
		"a new object that has all":         {state(live(both), recorded(both, ofAnother)), "change not recorded yet"},
		"the gate":                          {state(live(both, gatedFor(time.Hour)), recorded(both)), "gate to be lifted"},
		"two machines":                      {state(live(both), recorded(both, quarantining(both))), "quarantined"},
		"an owner":                          {state(live(both, ofNodekeep), recorded(both, ofArgo)), "owners to restore"},
	} {
		t.Run(name, func(t *testing.T) {
			summary := SummaryOf(c.state, under(policy.Default()))
			assert.Equal(t, c.want, summary.Why)
			assert.Equal(t, c.want == "", summary.Current)
		})
	}
}
